"""Coordinator runtime: runs the shards of a coordinator. It contains no domain rules.

Theory of operation
-------------------

A shard is a state machine (`machine.py`), a log, and a lease. The machine is the memory of the shard. The
runtime drives it through the states of `lifecycle.py`: LOADING replays the log into an empty machine, ACTIVE
accepts commands, FAILED throws the machine away and loads again, CLOSED is final.

A command passes through four steps. The first three run in one go, without an await between them:

1. *Decide.* The machine returns a decision and changes nothing.
2. *Accept.* The runtime applies the records to the machine, then the soft changes, and queues the payloads
   and the effects. A decision that cannot be accepted is discarded as a whole: the store rejects appends,
   or the reply depends on memory alone and the lease may have expired.
3. *Wait.* The caller waits until all records that were applied before its reply are durable. A command
   that reads waits too if anything is pending, because its reply depends on the pending records.
4. *Append.* One task appends what has accumulated as one group (group commit). Once the group is durable,
   the runtime resolves the waiting callers and performs the effects, both in the order of acceptance.

Invariants:

* A decision sees all decisions accepted before it, durable or not: records and soft state alike. Two
  decisions between which an append is in flight therefore never conflict.
* No reply and no effect leaves the shard before the records it depends on are durable. If they never become
  durable, the reply is an error and the effect is dropped, together with the soft state: the machine is
  replaced. Code that waits for an effect must watch `load_generation`, which changes with every load.
* At most one append is in flight. A group starts at position `durable + 1`, so that the log rejects a group
  that does not continue it, and carries the lease epoch, so that a former owner is fenced.
* A reply without pending records is returned only while the lease is valid by the local clock: no append
  would discover that another broker owns the shard.

An append ends in one of four ways. Durable: see step 4. *Fenced*: another broker owns the shard, which
closes. *Not written*: memory is ahead of the log, so the shard loads again. *Unknown outcome*: the write may
still arrive, so the shard claims its lease again with a higher epoch, which fences the write, and then loads.
A store that *rejects* appends (out of memory or disk) is a special case of not written: the shard loads again
at once and serves reads, but discards decisions with records for `refusal_pause` seconds, and performs no
deadlines for `deadline_pause` seconds.
"""
