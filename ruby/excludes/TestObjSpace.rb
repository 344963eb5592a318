exclude(:test_dump_objects_dumps_page_slot_sizes, "expects slot sizes to be multiples of 40; Ashlar has widths between, and each is dumped as it is")
