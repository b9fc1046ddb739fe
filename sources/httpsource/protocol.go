package httpsource

// Protocol is how the clients of a source send their events. Its functions may be called
// by several goroutines at a time, must not keep the event or change it, and get
// whatever stands between two commas: it need not be JSON.
type Protocol struct {
	// Accepts says whether a POST to path brings events.
	Accepts func(path string) bool
	// Ignores says whether a POST to path is answered as if it did, although nobody
	// wants what it brings. May be nil.
	Ignores func(path string) bool
	// Member is the member of the body, an object, that is the array of events. Empty:
	// the body is that array.
	Member string
	// Keep says whether an event is to be stored. The others are left out, and count
	// nowhere. Nil: all are stored.
	Keep func(event []byte) bool
	// Identity appends to dst what tells the event from every other one, and returns
	// the whole. An event that gets dst back as it was has no identity: it is stored,
	// and stored again when it comes again.
	Identity func(dst, event []byte) []byte
}
