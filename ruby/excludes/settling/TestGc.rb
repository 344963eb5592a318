exclude(:test_start_full_mark, "asks for a minor collection; while each is a major one there is none")
