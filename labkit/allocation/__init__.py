"""Resource allocation: a `policy.yaml` that says what a server may have, and what of it is really in force.

    policy.py       what a policy may say: reservation, scaling, priority
    policy_file.py  from a file to a policy, or to words that say what is wrong with it
    ledger.py       what was applied, what was not, and why
    cores.py        threads bound to cores
    resctrl.py      ways of the last-level cache
    gpu.py          a GPU's memory and compute units
    scaler.py       when a share moves, and how far
    load.py         how busy a server is, from what it records
    moving.py       a scaler that acts on a device while the server runs
    simulated.py    the same on a simulated device
    priority.py     priorities of tenants
    hold.py         all of it around one run, undone at its end

Stands above the devices and below the runner, which holds a policy for as long as a job runs.
"""
