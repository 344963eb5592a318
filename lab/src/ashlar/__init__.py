"""See into the heap of a Ruby program on Ashlar: for whoever runs one, with nothing but Python's standard library.

A folder for each question: `trying` (what an application takes on stock Ruby and on Ashlar), `heap` (who allocates, who keeps, and live
numbers), `shared` (what forked processes share), `boot` (what a start costs), `retained` (who keeps what in a dump) and `memory` (of a
command's processes). Each reads, makes a model, and puts that into tables, pages or files, which the modules of this folder write.
"""

__version__ = "0.2.0"
