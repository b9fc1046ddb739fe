package httpsource

// Protocol says how the clients of a source send their events. Its functions may be
// called by several goroutines at a time, and must neither keep nor change the event. An
// event is whatever stands between two commas: it need not be JSON.
type Protocol struct {
	// Accepts says whether a POST to path brings events.
	Accepts func(path string) bool
	// Ignores says whether a POST to path is answered as if it did, but its body is
	// discarded. May be nil.
	Ignores func(path string) bool
	// Member is the member of the body, an object, that is the array of events. Empty:
	// the body is that array.
	Member string
	// Keep says whether an event is to be stored. The others are left out and counted, see
	// sources.Report. Nil: all are stored.
	Keep func(event []byte) bool
	// Identity appends to dst what identifies the event, and returns the result. If it
	// returns dst unchanged, the event has no identity: it is stored each time that it
	// comes.
	Identity func(dst, event []byte) []byte
}
