// Package verify proves that a file export is complete and unchanged up to an anchor from
// outside, names the first break, or says that its end is not proven. It only reads, may run beside the exporter that writes, and trusts
// nothing in the directory: not the names in the manifest, not its numbers, and no
// symbolic link.
//
// # What is proven
//
// Run reads the manifest line by line and each file that it names, and wants that
//
//   - each line follows on the line before it (hash), is signed where keys are given,
//     and leaves no seq of its queue out behind the entry before,
//   - each file is there, byte for byte as its entry says (size, SHA-256), unless a
//     later line says that retention has removed it, and has as many lines as its
//     entry says. Lines are counted in compressed files with Options.Deep only: the
//     hash proves the bytes, and whoever could write a wrong count into the manifest
//     could write a wrong hash as well,
//   - no other file lies in the directory or below it, but for those that the sink
//     works with or has set aside,
//   - no gap has the reason Unknown,
//   - what the position of the sink names is there: the manifest up to the size and
//     with the hash in it, and the accepted part of the unfinished file. Nobody vouches
//     for the position itself, so the unfinished file counts as not yet proven,
//   - Options.Last is there, the lines that Options.Checkpoints name are, and nothing that
//     Options.Reference has differs or is left out.
//
// # Verdicts
//
// Without keys, whoever can write to the directory can write the whole export anew
// and it will look complete; with them, only the owner of the private key can. Either
// way the export as it was at some earlier moment looks complete too: newer files,
// their lines and the position can be taken away together, or put back to an older
// state, an empty one included. So the directory alone, signed or not, is Unanchored at
// best. It is Proven only up to an anchor: Last, the newest of Checkpoints, or the last
// record that Reference has as well. What an anchor vouches for: a hash and a checkpoint
// for every byte up to their line, the id of a record for no seq up to it being left out,
// a reference for the records that it has, from the first to the last that is compared. A
// file that was removed, a gap, and the beginning of the export count only where a
// signature that was checked covers the line that says so, or a hash or checkpoint does: a
// line that says it is easily written. A checkpoint may be the work of a producer, so
// none proves anything while another of the same sink is of another export: Report.Doubts.
//
// # The first break
//
// The manifest gives the order: of breaks in several files that of the lowest line is
// reported. After a line that is itself broken nothing is read, because no later line
// can be trusted; a file that is missing before it is not reported then, since a later
// line might have said that it was removed. Breaks that belong to no line come last:
// files that are not listed, the position, Last, Checkpoints, Reference.
//
// # Beside an exporter
//
// Names are collected before the manifest is read, and the manifest is read to its end
// before and after the position: so a file that is finished or removed meanwhile is
// listed or not looked for, and a line that is being written is left for next time.
//
// # Cost
//
// One pass over the files, as many at a time as there are processors and one more, so
// that reading and hashing overlap. Memory is a buffer for each of these, one line of
// the manifest, and a little for every file.
package verify
