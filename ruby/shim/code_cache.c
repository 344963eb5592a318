/*
 * What code that was loaded when it was first needed tells the collector's side.
 */
#ifdef ASHLAR_LAZY_CODE

void ashlar_code_loaded(const char *binary, unsigned int index);

/* Called by the edited compile.c (ruby/inside/edits) in any Ractor. It must not allocate Ruby
   objects, nor wait for a lock. */
void
ashlar_code_loaded(const char *binary, unsigned int index)
{
    (void)binary;
    (void)index;
}

#endif
