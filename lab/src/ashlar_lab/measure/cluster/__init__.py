"""One experiment on several machines: blocks are handed out one by one, and each stays whole on one machine.

`parcel` says what travels, `courier` is what runs inside a worker of the cluster, `agent` is the lab's own process on a machine,
`engine` talks to Dask, and `session` hands out blocks and stores what comes back. Why so: docs/lab-machines.md.
"""
