package deadletter

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"

	"github.com/docket-export/docket/internal/disk"
)

const damageText = "dead letters: a damaged part of the log was set aside"

// setAsideHoles copies the damage in the log to files of its own.
func (s *Store) setAsideHoles() error {
	for _, h := range s.holes {
		if err := s.setAside(h, slog.LevelWarn, damageText); err != nil {
			return err
		}
	}
	return nil
}

// setAside makes a durable copy of a part of the log, in a file whose name says what
// is in it, so that a second attempt makes no second copy. Zeros alone hold nothing.
func (s *Store) setAside(h hole, level slog.Level, text string) error {
	part := io.NewSectionReader(s.log, h.from, h.to-h.from)
	var seen inspector
	if _, err := io.Copy(&seen, part); err != nil {
		return fmt.Errorf("read the damaged part at %d: %w", h.from, err)
	}
	if !seen.content {
		return nil
	}
	name := fmt.Sprintf("%s%08x-%d", damagedPrefix, seen.sum, h.to-h.from)
	there, err := s.place.Join(name).Exists()
	if err != nil {
		return err
	}
	if !there {
		if err := s.copyPart(part, name); err != nil {
			return fmt.Errorf("set aside the damaged part at %d: %w", h.from, err)
		}
	}
	if err := s.place.SyncDir(); err != nil {
		return err
	}
	s.opts.Log.Log(context.Background(), level, text, "file", s.path(name), "offset", h.from, "bytes", h.to-h.from)
	return nil
}

// copyPart writes the part to a file of this name. A copy that was not finished has
// another name, which a next attempt takes again.
func (s *Store) copyPart(part *io.SectionReader, name string) error {
	return s.place.Join(name).ReplaceBy(func(f disk.File) error {
		_, err := io.Copy(io.NewOffsetWriter(f, 0), io.NewSectionReader(part, 0, part.Size()))
		return err
	})
}

// inspector is a writer that looks at what it gets.
type inspector struct {
	sum     uint32
	content bool // other bytes than zeros
}

func (i *inspector) Write(b []byte) (int, error) {
	i.sum = crc32.Update(i.sum, castagnoli, b)
	for _, c := range b {
		i.content = i.content || c != 0
	}
	return len(b), nil
}
