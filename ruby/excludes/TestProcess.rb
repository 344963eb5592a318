exclude(:test_warmup_frees_pages, "expects the slots that could be allocated to be as many as before, by a rule of the default collector's pacing; the pages do go back to the system")
