// Package deadletter keeps the records that the destination of a sink will never
// take, with what it said of them.
package deadletter

import (
	"errors"
	"log/slog"
	"time"
)

// Letter is one record set aside.
type Letter struct {
	Seq         uint64 // of the record in its queue; one letter a seq
	Source      string
	Producer    string
	Received    time.Time
	Reason      string // the failure as the sink put it, without secrets
	Status      string // code of the destination's answer; may be empty
	Answer      string // its words; may be empty
	Attempts    int
	FirstFailed time.Time
	LastFailed  time.Time
	Redriving   bool   // waits to be sent again
	Record      []byte // byte for byte as it would be sent
}

// ErrFull says that a letter does not fit within the bound.
var ErrFull = errors.New("dead letters are full")

// Options are what a Store needs to know.
type Options struct {
	MaxBytes int64
	Log      *slog.Logger
}

// Stats describe a Store.
type Stats struct {
	Letters   int // all, those waiting to be sent again included
	Redriving int
	Bytes     int64
	MaxBytes  int64
}

// Store is the dead letters of one sink.
type Store struct{}

// Open opens the store in dir, which is made with the first letter.
func Open(dir string, o Options) (*Store, error) { return &Store{}, nil }

// Add makes letters durable.
func (s *Store) Add(letters []Letter) error { return nil }

// Remove forgets letters.
func (s *Store) Remove(seqs []uint64) (int, error) { return 0, nil }

// Redrive marks letters to be sent again.
func (s *Store) Redrive(seqs []uint64) (int, error) { return 0, nil }

// NextRedriving returns letters to be sent again, in the order of seq.
func (s *Store) NextRedriving(records, bytes int) ([]Letter, error) { return nil, nil }

// Has reports whether seq has a letter.
func (s *Store) Has(seq uint64) bool { return false }

// Counts returns how many letters with a seq in [from, to) are kept and redriving.
func (s *Store) Counts(from, to uint64) (kept, redriving uint64) { return 0, 0 }

// List returns the letters without their records, in the order of seq.
func (s *Store) List() ([]Letter, error) { return nil, nil }

// Get returns the letter of seq with its record.
func (s *Store) Get(seq uint64) (Letter, bool, error) { return Letter{}, false, nil }

// Stats describes the store.
func (s *Store) Stats() Stats { return Stats{} }

// Close releases the store.
func (s *Store) Close() error { return nil }
