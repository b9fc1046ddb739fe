// Package verify proves that a file export is complete and unchanged up to an anchor from
// outside, names the first break, or says that its end is not proven. It only reads, may
// run beside the exporter that writes, and trusts nothing in the directory: not the names
// in the manifest, not its numbers, and no symbolic link.
//
// # What is proven
//
// Run reads the manifest line by line and each file that it names. It checks that
//
//   - each line follows on the line before it (hash), is signed where keys are given,
//     and leaves no seq of its queue out behind the entry before,
//   - each file is there, byte for byte as its entry says (size, SHA-256), unless a
//     later line says that retention has removed it, and has as many lines as its
//     entry says. Lines of compressed files are not counted: the hash proves the bytes, and an
//     attacker who can write a wrong count can write a wrong hash,
//   - no other file lies in the directory or below it, but for those that the sink
//     works with or has set aside,
//   - no gap has the reason Unknown,
//   - Options.Last is there, and the lines that Options.Checkpoints name are.
//
// The unfinished file is reported with its name and size. Nothing of it is proven: its line
// comes when it is finished.
//
// # Verdicts
//
// Without keys, anyone who can write to the directory can write a whole new export that
// looks complete. With keys, only the owner of the private key can. In both cases an older
// state of the export looks complete, too: newer files and their lines can be removed together,
// down to an empty export. So the directory alone, signed or not, is
// Unanchored at best. It is Proven only up to an anchor: Last, or the newest of
// Checkpoints. Each anchor vouches for something else:
//
//	a hash, a checkpoint   every byte up to their line
//	the id of a record     no seq up to the record is left out
//
// A removed file, a gap, and the beginning of the export count only if a checked signature,
// a hash or a checkpoint covers the line that tells of them: such a line is easy to forge.
// A producer can forge a checkpoint, so no checkpoint of a sink proves anything while another
// one of the sink is about another export: Report.Doubts.
//
// # The first break
//
// The manifest gives the order: of several breaks, the one with the lowest line is
// reported. Nothing is read after a broken line, because no later line can be trusted. A
// missing file before it is not reported then: a later line may have said that the file was
// removed. Breaks without a line come last: files that are not listed, Last, Checkpoints.
//
// # Beside an exporter
//
// Names are collected before the manifest is read, so that each file that is there has its line,
// but for one that the sink is finishing: unfinished.go has the rule for that. The line that
// says that a file was removed is older than its removal, and is read behind it. So a file that
// is finished or removed during the run is no break, and a line that is being written is left
// for the next run.
//
// # Cost
//
// Run makes one pass over the files, one after the other. It needs one buffer, one line of the
// manifest, and a little memory for every file.
package verify
