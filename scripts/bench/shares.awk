# Adds up what `perf report --sort dso,sym` prints: "collector malloc kernel", in percent of all samples.
$1 !~ /%$/ { next }
{ share = $1 + 0; symbol = $4; for (field = 5; field <= NF; field++) symbol = symbol " " $field }
$2 ~ /kernel/ { kernel += share; next }
$2 ~ /^libc/ && symbol ~ /malloc|free|calloc|realloc|unlink_chunk|sysmalloc|systrim|sysdealloc|munmap_chunk|mremap_chunk|alloc_perturb/ { malloc += share; next }
# Ashlar's payloads are its malloc, wherever Ashlar is.
$2 ~ /ruby/ && symbol ~ /ashlar.*payload|rb_gc_impl_(malloc|calloc|realloc|free)/ { malloc += share; next }
$2 ~ /librubygc/ { collector += share; next }
# What the collector runs inside Ruby's own executable, and Ashlar where it is inside.
$2 == "ruby" && symbol ~ /ashlar|gc_|rb_gc|obj_free|newobj|heap_page|rgengc|objspace/ { collector += share }
END { printf "%.1f %.1f %.1f", collector, malloc, kernel }
