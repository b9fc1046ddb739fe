// Package filesink is the sink "file": it writes records to files in a
// directory, each record exactly once and in the order of the queue.
//
//	decisions-active.ndjson                     records, one a line; grows
//	decisions-<first>-<last>-<time>.ndjson      finished: never touched again
//	decisions-active.position                   how much of the active file counts
//	decisions-unnumbered-<time>.ndjson          set aside; see "When the position is lost"
//	.decisions.lock                             held by the one process that writes
//
// first and last are the seqs of the first and the last record in the file, with
// twenty digits so that names sort in order; time is when it was finished, UTC.
//
// # What accepted means
//
// Send appends the batch, syncs the active file, and then writes and syncs the
// position: the UUID of the queue, the seq of the last record, the size of the
// active file. That second sync is the moment of acceptance. Bytes beyond the
// recorded size were never accepted and are cut off; records at or below the
// recorded seq of the same queue are recognised and not written again. Since a
// batch is either below the position or beyond it, a redelivery leaves no copy
// and a crash leaves no gap. For the same reason a replay into a directory adds
// nothing that it already holds.
//
// The sink never reports records as Rejected. It must not begin to: a record set
// aside and redriven later would come with a seq below the position and be taken
// for a redelivery.
//
// # Crash stories
//
// Each is what Open finds after a crash at that point, power cuts included.
//
//	Send   1 write           A tail beyond the recorded size, perhaps torn: cut.
//	       2 sync file       The same.
//	       3 write position  Old or new position, by its checksum. With the old
//	                         one the tail is cut and the batch comes again.
//	       4 sync position   New position: the batch comes again and is recognised.
//
//	finish 1 sync file       Nothing has happened.
//	       2 position, with  The name is free: the file is still the active one,
//	         the name to be  and the intention is forgotten.
//	       3 rename          Either the old name or the new. A file of the new name
//	         and sync dir    says that finishing is done but for the next step.
//	       4 position, with  The active file is empty or missing, and made anew.
//	         size 0
//	       5 new file        The same.
//
//	Open   1 new position    Open does not overwrite the position it found: what it
//	         file, sync,     read may be in memory only, from a write whose sync
//	         rename,         failed. It writes it to a new file, which replaces the
//	         sync dir        old one. Before or after, both say the same.
//	       2 cut the tail    Only what is beyond a position that is durable by now.
//
// # Failures
//
// After a failed write the active file is cut back and stays in use: nothing of
// it was synced. After any other failure the files are closed, and the next Send
// begins like Open after a crash. It then finishes the active file at its accepted
// size and goes on in a new one, since the kernel may have dropped pages whose
// sync failed and would call a second sync of them a success. Send does not make
// the directory: one that has gone is for an operator to put back, or to mount.
//
// # When the position is lost
//
// Nothing is cut or deleted then. If the position file is missing or neither of
// its two slots is sound, the active file becomes decisions-unnumbered-<time>.ndjson
// and a new one is begun. The names of the finished files are no substitute: they
// do not say of which queue, so a seq found there must not make the sink skip a
// record. What the queue had not noted as delivered, one batch as a rule, may
// therefore stand in the set-aside file and again in a later one.
//
// If one slot is sound and the other damaged, the damaged one may have been the
// newer. Bytes beyond the sound one's size are then copied to an unnumbered file
// before they are cut.
//
// If the active file is missing, or shorter than recorded, somebody else has
// changed it. The sink stops with Misconfigured and touches nothing until the
// file is put back, or the position file moved away.
package filesink
