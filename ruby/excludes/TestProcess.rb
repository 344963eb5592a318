exclude(:test_warmup_run_major_gc_and_compact, "expects Process.warmup to compact; Ashlar does not move objects, the major collection does run")
exclude(:test_warmup_frees_pages, "expects the slots that could be allocated to be as many as before, by a rule of the default collector's pacing; the pages do go back to the system")
