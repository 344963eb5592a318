/* Ashlar's cells, with a callback that traces them. */
#define CALLBACKS

#include "with_ashlar.h"
