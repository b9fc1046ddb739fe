// Package known remembers which records are stored already, for sources whose clients
// send whole bodies again and do not number what they send: it keeps the identities of
// the last Window records at least, across restarts and crashes.
//
// # How the queue and the log agree
//
// The queue keeps the number of a producer's last record together with the records; it
// has no room for identities. So these go into a log of their own, before the records
// go to the queue:
//
//  1. each new record gets the next number, and its identity is written to the log;
//  2. the log is synced;
//  3. the records are submitted to the queue under those numbers;
//  4. once the queue has them on disk, the client is answered.
//
// After a crash the queue says up to which number it has records. An identity at or
// below that number is of a stored record: it is known. One above it is of a record
// that never got there: it is forgotten. There is no moment at which a crash leaves a
// record stored and its identity unknown, or the other way round.
//
// A number means one record for as long as it is in the log. Numbers that were given and
// not used, because the queue was full or the process died, are taken out of the file,
// durably, before they are given again. So whatever happens to the file, which may be
// torn, damaged or lost, the worst is that an identity is forgotten and a record that
// comes again is stored twice. docket never takes a record for stored that is not.
//
// The queue may forget the position of a producer that was silent for a day. Each entry
// of the log therefore says up to which number everything was durable by then.
//
// # Whose identities
//
// A peer that proves who it is, with a client certificate, has identities of its own: it
// cannot make docket take for known what another will send. Its IDs say whose they are
// (OfPeer), and the window is shared among peers, so a flood of one pushes out its own.
// All others are one peer, with the IDs that they had before peers were told apart.
//
// # The file
//
// The file "known" is a sequence of entries, little-endian, each beginning at a multiple
// of 16 bytes:
//
//	 0  magic    4 bytes  "DKI1"
//	 4  count    4 bytes  of identities
//	 8  first    8 bytes  the number of the first of them
//	16  settled  8 bytes  every record up to this number was durable
//	24  crc      4 bytes  CRC-32C of the whole entry, with zeros here
//	28           4 bytes  zero
//	32  ids      16 bytes for each number from first on; zeros: that one has none
//
// Zeros follow the last entry: they are written ahead, because a sync is cheaper while
// the file does not grow. What is no entry is skipped up to the next one. A file that
// has become long is replaced by a new one with what is still known.
package known
