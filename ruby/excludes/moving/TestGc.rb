exclude(:test_latest_gc_info_need_major_by, "asks whether the next collection is a full one; while everything moves, each is")
exclude(:test_start_full_mark, "asks for a minor collection; while everything moves there is none")
