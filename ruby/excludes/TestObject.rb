exclude(:test_remove_instance_variable_re_embed, "expects three variables to fit the narrowest object; the narrowest on Ashlar holds two, and wider ones come once a class has been seen with more")
