// Package filesink is the sink "file": it writes records to files in a
// directory, each record exactly once and in the order of the queue, and keeps a
// manifest by which docket verify proves that nothing is missing or changed.
//
//	decisions-active.ndjson                     records, one a line; grows
//	decisions-<first>-<last>-<time>.ndjson      finished: never touched again
//	manifest.jsonl                              what was finished, and removed: package manifest
//	decisions-active.position                   how much of the active file and the manifest counts
//	decisions-unnumbered-<time>.ndjson          set aside; see "When the position is lost"
//	.decisions.lock                             held by the one process that writes
//
// first and last are the seqs of the first and the last record in the file, with
// twenty digits so that names sort in order; time is when it was finished, UTC.
// Compressed files, the active one included, end with .gz or .zst besides. Earlier
// builds could put finished files into directories YYYY-MM-DD: the manifest names
// those files with them.
//
// # What accepted means
//
// Send appends the batch, syncs the active file, and then writes and syncs the
// position: the UUID of the queue, the last seq that was a record or in a gap, the
// size of the active file and the state of its hash. That last sync is the moment of
// acceptance. Bytes beyond the recorded size were never accepted and are cut off;
// records at or below the recorded seq of the same queue are recognised and not
// written again. Since a batch is either below the position or beyond it, a
// redelivery leaves no copy and a crash leaves no gap. For the same reason a replay
// into a directory adds nothing that it already holds.
//
// The gaps of a batch are written to the rest of the position file and synced
// before the slot that counts them in, and so are as durable as its records.
// Seqs that are neither a record nor in a gap become gaps of reason Unknown.
//
// The sink never reports records as Rejected. It must not begin to: a record set
// aside and redriven later would come with a seq below the position and be taken
// for a redelivery.
//
// # Lines
//
// A queue may be set back to an older copy of itself, and copies may run beside each other. Then
// records with seqs come that the export has already, of other records. By the lineages of the queue
// and of what it has (internal/lineage), the sink tells at its start up to which record both are the
// same. A line is a sequence of records without such a parting: all that the manifest says of seqs
// is about one. The first line of a queue has the id of the queue, and a line that parts from another
// a random one; it goes on behind the last record that both have in common, in a new file. A line
// goes on when its queue comes back. Nothing is left out and nothing is there twice.
//
// The position names the incarnations of the records that it counts, the newest 32 of them, between
// its slots and the gap log, and the manifest those of each file. A file is finished before it has
// more than the position can name.
//
// # Compression
//
// A batch is one whole gzip member or zstd frame, so that a file may be cut back
// between two of them and be read at any time as far as it has been accepted. A
// file is of one form. Where the configuration has changed, the active file of the
// old form is finished before the next batch.
//
// # Files
//
// The active file is finished before a batch that would make it larger than
// rotate.maxBytes, or that is of another queue or form; before one whose gaps
// would be more than a line of the manifest can tell; and when it is rotate.maxAge
// old, by a goroutine of its own, since nothing may be sent then. There is no partition by a field of the records: a queue would be in several
// active files at once, no file would tell which records it has to have, and the
// proof would be gone. Several sinks with a filter each do the same.
//
// # The manifest and removal
//
// The line of a file accounts for every seq since the line before: as a record of
// the file or in a gap. The hash of the file is taken from what was written, not
// from what can be read later, so a disk that changes bytes is found out. The
// position holds the hash of the last line, so a rewritten manifest is found out,
// too.
//
// Finished files beyond retain are removed, oldest first: after a file was finished, when
// one gets too old, at the start, and when the disk is full. The newest stays. The manifest
// tells of a removal before it happens. Only files that stand in the manifest are removed. A
// file that is already gone gets no line: docket did not remove it. A removal that fails is
// tried again and delays nothing.
//
// # Checkpoints
//
// The hash of the newest line of the manifest vouches for all lines before it, but only if
// it is known from elsewhere: anyone who can write to the directory can remove files, lines
// and the position together. So docket makes a record of the hash, decision.Checkpoint, which
// goes to every sink: after a file was finished, when the sink is opened, and an hour after
// the last checkpoint. The record is made once the position covers the line, so a crash
// cannot undo it. After a crash before that, the next Open makes the record.
//
// A checkpoint is a record, and lands in the active file of this and any other export. The
// circle ends there, because a checkpoint is about finished files only, and checkpoints
// alone neither finish a file nor cause a checkpoint:
//
//   - the age of a file counts from its first record that is no checkpoint. An idle docket
//     adds one record an hour for each file sink, and finishes no file for them,
//   - where such a file is finished all the same, since it is full or the day is over, its
//     line and its removal wait for the next checkpoint that is due. Otherwise each
//     checkpoint would cause the next where maxBytes has room for only one.
//
// The copy in the export's own files proves nothing: it must come from another sink.
//
// # Crash stories
//
// Each is what Open finds after a crash at that point, power cuts included.
//
//	Send   1 write           A tail beyond the recorded size, perhaps torn: cut.
//	       2 sync file       The same.
//	       3 write and sync  Gaps beyond those that are counted: overwritten.
//	         gaps, if any
//	       4 write position  Old or new position, by its checksum. With the old
//	                         one the tail is cut and the batch comes again.
//	       5 sync position   New position: the batch comes again and is recognised.
//
//	finish 1 sync file       Nothing has happened. An empty directory of a day
//	         (make the day)  may be left.
//	       2 position, with  The name is free: the file is still the active one,
//	         the name to be  and the intention is forgotten.
//	       3 rename, sync    Either the old name or the new, or both. A file of the
//	         dir of the new  new name says that what follows has to be done.
//	         name and root
//	       4 add to and      Bytes beyond the recorded size of the manifest were
//	         sync manifest   not accepted: cut. Then the line is written again.
//	       5 new position    The active file is empty or missing, and made anew.
//	         file, size 0
//	       6 new file        The same.
//
//	remove 1 add to and      Cut, as with finish. Nothing is removed.
//	         sync manifest
//	       2 new position    The files that the lines since the position was
//	         file            settled say are removed are removed.
//	       3 unlink, sync    The same.
//	         directories
//	       4 position:       Done. A file that is put back later stays.
//	         settled
//
//	Open   1 new position    Open does not overwrite the position it found: what it
//	         file, sync,     read may be in memory only, from a write whose sync
//	         rename,         failed. It writes it to a new file, which replaces the
//	         sync dir        old one. Before or after, both say the same.
//	       2 cut the tail    Only what is beyond a position that is durable by now.
//
// A manifest with a tail is not cut but replaced by a copy of what counts, for the
// same reason. Every change to the manifest is followed by a new position file, so
// that both of its slots know the size.
//
// # Failures
//
// After a failed write the active file is cut back and stays in use: nothing of it
// was synced. That also frees what may have filled the disk; removals that were due
// are then tried once more, and after them the batch. After any other failure the
// files are closed, and the next Send begins like Open after a crash. It then
// finishes the active file at its accepted size and goes on in a new one, since the
// kernel may have dropped pages whose sync failed and would call a second sync of
// them a success. Send does not make the directory: an operator must restore or
// mount a missing one.
//
// Everything below the directory is opened as package disk does: a link, a pipe or a
// hard link with a name of the sink's was planted. The sink stops with Misconfigured and
// names it, unless it replaces that file anyway.
//
// A key that cannot be read stops the sink when it needs the key, and when it
// starts: a line without a signature would be a hole in the proof.
//
// # When the position is lost
//
// Nothing is cut or deleted then. If the position file is missing or neither of its two
// slots is sound, the active file becomes decisions-unnumbered-<time>.ndjson and a new one
// is begun. Records that the manifest lists are recognised. Records that the queue had not
// noted as delivered, usually one batch, may stand in the set-aside file and again in a
// later one. Records that do not come again are a gap of reason Unknown, which docket verify
// calls a break.
//
// If one slot is sound and the other damaged, the damaged one may have been the
// newer. Bytes beyond the sound one's size are then copied to an unnumbered file
// before they are cut. A slot whose gaps are damaged is as a damaged slot.
//
// If the active file or the manifest is missing, or shorter than recorded, somebody
// else has changed it. The sink stops with Misconfigured and touches nothing until
// somebody restores the file, or moves away the position file or the whole export. So it
// does when an older copy of the whole directory takes its place, and so does docket where it
// finds one at the start: the copy lacks records that were accepted.
package filesink
