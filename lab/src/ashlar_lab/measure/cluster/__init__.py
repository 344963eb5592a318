"""One experiment on several machines: each block is a task of Dask, and stays whole on one machine.

`parcel` says what travels, `bench` is the plug-in that carries it into each worker and measures there, through `agent`, the lab's own process
on a machine; `security` says who is talked to, `engine` talks to Dask, and `session` gives out blocks and stores them. Why so:
docs/design/lab-machines.md.
"""
