//! What the system says of this process's memory, and what it lets the process have.

/// What `/proc/self/status` says of this, in bytes.
pub fn status_bytes(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() << 10
}

/// Lets this process have so much of `resource`.
pub fn limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: reads the structure it is given.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
}

/// Pages of `[start, start + bytes)` that are in memory.
pub fn resident_pages(start: usize, bytes: usize) -> usize {
    let page_bytes = ashlar_heap::os::page_bytes();
    let mut pages = vec![0_u8; bytes.div_ceil(page_bytes)];
    let start = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: there is one byte for each page.
    let outcome = unsafe { libc::mincore(start, bytes, pages.as_mut_ptr()) };
    assert_eq!(outcome, 0, "the range is mapped");
    pages.iter().filter(|&&page| page & 1 != 0).count()
}
