//! What the control group of a process lets it have.

use std::path::Path;

use crate::os;

/// The memory limit of this process's control group (version 2, then 1), when it has one below
/// the machine's memory.
pub(super) fn limit_bytes() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let machine = os::physical_memory_bytes().unwrap_or(usize::MAX);
    lowest_group_limit_bytes(&groups, Path::new("/sys/fs/cgroup"))
        .filter(|&limit: &usize| limit < machine)
}

/// The lowest limit of the groups that `groups` names, and of the groups above them:
/// all these limits are in force. In a container the group may be mounted as the topmost
/// one, whatever its name outside.
fn lowest_group_limit_bytes(groups: &str, mount: &Path) -> Option<usize> {
    let limits = groups.lines().flat_map(|line| {
        let (controllers, path) = line
            .split_once(':')
            .and_then(|(_, rest)| rest.split_once(':'))
            .unwrap_or(("none", ""));
        let (root, file) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (mount.join("memory"), "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let group = Path::new(path.trim_start_matches('/'));
        let read = |group: &Path| {
            let text = std::fs::read_to_string(root.join(group).join(file)).ok()?;
            text.trim().parse::<usize>().ok()
        };
        group.ancestors().filter_map(read).collect()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_among_a_group_and_those_above_it_is_in_force() {
        let mount = std::env::temp_dir().join(format!("ashlar-groups-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let path = mount.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/memory.max", "700\n");
        write("a/b/memory.max", "max\n");
        write("memory/memory.limit_in_bytes", "900\n");
        let limit = |groups: &str| lowest_group_limit_bytes(groups, &mount);
        assert_eq!(limit("0::/a/b\n"), Some(700));
        assert_eq!(limit("0::/\n"), None);
        assert_eq!(limit("9:cpu:/a\n4:memory:/elsewhere/name\n"), Some(900));
        assert_eq!(limit("4:cpu,memory:/\n0::/a\n"), Some(700));
        assert_eq!(limit("nonsense"), None);
        std::fs::remove_dir_all(&mount).unwrap();
    }
}
