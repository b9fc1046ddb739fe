// Package deadletter keeps the records that the destination of a sink will never
// take, with its answers.
//
// # Files
//
// A Store has a directory of its own. In it lie
//
//	letters.log           the letters; absent when there are none
//	letters.log.new       a log being written anew; means nothing
//	damaged-<crc>-<n>     n bytes of a log that could not be read, set aside
//
// The log is text, a line for each thing that happened:
//
//	<crc> log <after> <version>
//	<crc> kept <after> <seq> <about bytes> <record bytes> <record crc> <about> <record>
//	<crc> redriving ...   the same, of a letter that waits to be sent again
//	<crc> redrive <after> <seqs>
//	<crc> remove <after> <seqs>
//
// A crc is the CRC-32C in 8 hexadecimal digits. The first covers what follows it,
// up to the record or the end of the line; the record has one of its own, so that
// the rest of a letter can be read without it. About is a JSON object. Seqs are
// ranges, "3-7,9": the letters there are between their ends. After is an offset: the lines
// before it were durable when this one was written.
//
// A record is stored byte for byte as it came. It holds no newline. Otherwise a
// producer could put a line of the log into a record, and a reader that looks for
// the next line after damage would accept that line.
//
// # Crashes
//
// Every change is one write at the end of the log and one sync. Bytes that cannot be read
// behind the last offset that a line calls durable are a torn tail: they were not
// acknowledged, and are cut, whole lines behind the tear included. Bytes that cannot be read
// before it are damage, and cost the lines they are in. Both are first copied to a file of
// their own, unless they are all zeros.
//
// A line that a killed process has written may be in the page cache alone, and after a
// failed sync it may stay there and never reach the disk. So Open rewrites the last
// lines, which no later line calls durable, and syncs.
//
// A log whose sync has failed is never written again. The next change first copies the
// letters into a new log, which replaces the old one. A log with more garbage than
// letters is compacted in the same way. Old and new hold the same letters, so it does
// not matter which of them a power cut leaves.
//
// Removing the last letter removes the log. That needs no disk space, so it works on a
// full disk.
package deadletter
