package manifest

// Position is what the sink of an export has accepted and not yet noted in the
// manifest, according to its position file. The sink's package reads that file,
// and gives docket verify a Position. It is not signed, so it proves nothing; but
// what it names must exist.
type Position struct {
	Queue string // UUID; empty when nothing has been accepted yet
	Last  uint64 // the last seq of Queue that was accepted, as a record or in a gap
	Gaps  Gaps   // of Queue, behind the last entry of the manifest

	// Active is the entry that the unfinished file would get if it were finished
	// now. Bytes, hash and records are the accepted ones, and later bytes of the
	// file do not count. Name is the name of the file as long as it is active. nil
	// when no record was accepted since the last file was finished.
	Active *Entry
	// Finishing is the name that the unfinished file is getting; empty when it is
	// not being finished. The file then has one name or the other.
	Finishing string

	Manifest int64 // bytes of the manifest that are durable
	Chain    Hash  // of the last line in them
}
