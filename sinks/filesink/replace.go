package filesink

import (
	"io"

	"github.com/docket-export/docket/internal/disk"
)

// replace puts a copy of content in the place of the file, durably, and opens it.
func (s *store) replace(name string, content io.Reader) (disk.File, error) {
	if err := s.at(name).ReplaceBy(copyOf(content)); err != nil {
		return nil, err
	}
	return s.at(name).OpenWrite()
}

// copyOf fills a file.
func copyOf(content io.Reader) func(disk.File) error {
	return func(f disk.File) error {
		_, err := io.CopyBuffer(io.NewOffsetWriter(f, 0), content, make([]byte, bufferSize))
		return err
	}
}
