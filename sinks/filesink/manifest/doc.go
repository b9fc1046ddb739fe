// Package manifest is what a file export says about itself: the file
// manifest.jsonl in its directory, by which docket verify proves that nothing of
// the export is missing or changed. The package knows the form of the lines and
// how they are linked. It writes no files: the sink does, in its own order.
//
// # Lines
//
// One JSON object a line, of one of two types:
//
//	{"version":1,"type":"file","name":"decisions-...ndjson.zst","sha256":"<hex>","bytes":123,"records":4,
//	 "queue":"<uuid>","firstSeq":1,"lastSeq":7,"firstTime":"...","lastTime":"...",
//	 "incarnations":[{"id":"<uuid>","firstSeq":1}],"gaps":{"Corrupt":"6","Filtered":"3-4"},"finished":"...","previous":"<hex>","signature":"<base64>"}
//	{"version":1,"type":"removed","name":"decisions-...ndjson.zst","reason":"MaxAge","time":"...","previous":"<hex>","signature":"<base64>"}
//
// Each line has exactly one form: Decode takes no other spelling, order of
// members or white space than Append writes.
//
// # The chain
//
// previous is the SHA-256 of the bytes of the line before, without its newline and
// with its signature; 64 zeros in the first line. To change, remove, insert or move a
// line, an attacker has to write every later line anew.
//
// # Signatures
//
// signature is Ed25519 over the bytes of the line without that member: everything
// up to `,"signature":`, and the closing brace. By previous a signature covers all
// lines before its own, signed or not, so the chain up to it cannot be written anew
// without the key. Signatures do not cover lines behind the last one, and cannot show
// that lines were cut off the end.
//
// # Seqs that a file covers
//
// queue is the line of records that a seq is of: see package filesink, "Lines". incarnations are the
// starts of the queue that stored the records, with the first seq of each: the id of a record is that
// of its start and its seq. Entries of earlier dockets have none, and ids with that of the queue.
//
// The entries of one queue, in order, leave no seq out. An entry covers the seqs
// behind the lastSeq of the entry before it, up to and with its own lastSeq: each
// one of them is a record of the file or stands in its gaps, with the reason. So
//
//	records + seqs in gaps = lastSeq - lastSeq of the entry before
//
// and the k-th line of the file is the record with the k-th seq that is in no gap.
// The first entry of a queue covers what is from its firstSeq on, and before it
// what its gaps name; anything earlier was before the export began. firstSeq is the
// seq of the first record; lastSeq that of the last record, or of the last gap behind
// it that the entry takes in. A file without records is never finished.
package manifest
