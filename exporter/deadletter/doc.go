// Package deadletter keeps the records that the destination of a sink will never
// take, with its answers.
//
// # Files
//
// A Store has a directory of its own. In it lie
//
//	letters.log           the letters; absent when there are none
//	letters.log.new       a log being written anew; means nothing
//	damaged-<crc>-<n>     a log of n bytes with a line that could not be read, set aside
//
// The log is text, a line for each thing that happened: the CRC-32C of what follows it in
// 8 hexadecimal digits, a space, and a JSON object.
//
//	{"version":2}                               the first line
//	{"seq":7,"source":"webhook",...,"record":R} a letter. R is the record, byte for byte as it came
//	{"redrive":[7,9]}                           these letters wait to be sent again
//	{"remove":[7]}                              these letters are gone
//
// A later letter of the same seq replaces the earlier one, and waits for nothing. A record holds
// no newline.
//
// # Crashes
//
// Every change is one write at the end of the log and one sync. A last line without a newline is
// what a crash left of a write that was not acknowledged: it is cut. Any other line that cannot
// be read is damage: the whole file is copied aside, and a new log with the other lines replaces it.
//
// A line that a killed process has written may be in the page cache alone, and after a failed sync
// it may stay there and never reach the disk. So Open writes the end of the log again.
//
// A log whose sync has failed is never written again. The next change first copies the
// letters into a new log, which replaces the old one. A log with more garbage than
// letters is compacted in the same way. Old and new hold the same letters, so it does
// not matter which of them a power cut leaves.
//
// Removing the last letter removes the log, or renames it where a part is damaged. That needs no
// disk space, so it works on a full disk.
package deadletter
