package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/docket-export/docket/decision/once"
)

// store is what the consumer has made of the topic, in two files of a directory
// that only one consumer uses at a time:
//
//	records.ndjson  the records, a line each
//	position.json   {"bytes":4711,"partitions":{"0":{"offset":40,"dropped":2,"once":{...}}}}
//
// A commit syncs the records first and then puts a new position in place of the
// old one, by a rename: that is the moment in which all of it counts. What stands
// in records.ndjson beyond "bytes" was not committed, and is cut off at the next
// start.
type store struct {
	dir      string
	records  *os.File
	pending  []byte // records that are not written yet
	position position
}

type position struct {
	Bytes      int64                `json:"bytes"`
	Partitions map[int32]*partition `json:"partitions"`
}

// partition is the position in one partition.
type partition struct {
	Offset  int64       `json:"offset"`  // of the next message to read
	Dropped int64       `json:"dropped"` // how many redeliveries there were before it
	Once    once.Filter `json:"once"`
}

// openStore makes dir, or takes up what an earlier consumer has committed in it.
func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := &store{dir: dir, position: position{Partitions: make(map[int32]*partition)}}
	text, err := os.ReadFile(filepath.Join(dir, "position.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist): // nothing is committed
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(text, &s.position); err != nil {
			return nil, fmt.Errorf("position in %s: %w", dir, err)
		}
	}
	s.records, err = os.OpenFile(filepath.Join(dir, "records.ndjson"), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := s.records.Truncate(s.position.Bytes); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// partition returns the position in a partition, to be changed until the next
// commit.
func (s *store) partition(number int32) *partition {
	p := s.position.Partitions[number]
	if p == nil {
		p = new(partition)
		s.position.Partitions[number] = p
	}
	return p
}

// add makes a record part of the next commit.
func (s *store) add(record []byte) {
	s.pending = append(append(s.pending, record...), '\n')
}

// commit makes the records and the position durable together. After an error the
// store cannot be used: nobody knows what is on disk. The next openStore does.
func (s *store) commit() error {
	if _, err := s.records.WriteAt(s.pending, s.position.Bytes); err != nil {
		return err
	}
	if err := s.records.Sync(); err != nil {
		return err
	}
	s.position.Bytes += int64(len(s.pending))
	s.pending = s.pending[:0]
	text, err := json.Marshal(s.position)
	if err != nil {
		return err
	}
	return replace(filepath.Join(s.dir, "position.json"), text)
}

func (s *store) close() { s.records.Close() }

// replace puts a file with text in place of the one at path.
func replace(path string, text []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
