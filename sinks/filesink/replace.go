package filesink

import (
	"errors"
	"io"
	"os"
)

// replaceFile copies content to a file called newName and renames it to name. The
// file is durable, and open to be read and written, when the error is nil.
func (s *store) replaceFile(name, newName string, content io.Reader) (*os.File, error) {
	if err := s.removeAny(newName); err != nil {
		return nil, err
	}
	if err := s.writeNew(newName, content); err != nil {
		return nil, err
	}
	if err := s.disk.rename(s.at(newName), s.at(name)); err != nil {
		return nil, err
	}
	if err := s.disk.syncDirectory(s.at(".")); err != nil {
		return nil, err
	}
	return s.disk.open(s.at(name))
}

// writeNew makes a file that must not exist, with this content. The content is
// durable when the error is nil, the name is not.
func (s *store) writeNew(name string, content io.Reader) (err error) {
	f, err := s.disk.create(s.at(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := s.copy(f, content); err != nil {
		return err
	}
	return s.disk.sync(f)
}

func (s *store) copy(to *os.File, from io.Reader) error {
	buffer := make([]byte, bufferSize)
	for offset := int64(0); ; {
		n, err := io.ReadFull(from, buffer)
		if n == 0 && err == io.EOF {
			return nil
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return err
		}
		if _, err := s.disk.write(to, buffer[:n], offset); err != nil {
			return err
		}
		offset += int64(n)
	}
}

// removeAny removes the file of this name, if there is one.
func (s *store) removeAny(name string) error {
	there, err := exists(s.at(name))
	if err != nil || !there {
		return err
	}
	return s.disk.remove(s.at(name))
}
