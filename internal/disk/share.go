package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// shareWait is some thousand times the length of one read, and shorter than the start of
	// a process may take.
	shareWait = 5 * time.Second
	sharePoll = time.Millisecond
)

// outlast locks file as soon as nobody shares the lock. It does not wait for a process that
// holds it, for which nobody can share it.
func outlast(file *os.File) error {
	fd := int(file.Fd())
	for deadline := time.Now().Add(shareWait); ; time.Sleep(sharePoll) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
		if err := unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB); err != nil {
			return err
		}
		if err := unix.Flock(fd, unix.LOCK_UN); err != nil {
			return err
		}
	}
}

// notLocked closes file and returns err, an *InUseError where another process was faster.
func notLocked(file *os.File, err error) error {
	defer file.Close()
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	text, _ := io.ReadAll(io.LimitReader(file, maxHolder)) // unreadable text only costs the message its holder
	return &InUseError{Path: file.Name(), Holder: holderOf(string(text))}
}

// Share uses a shared flock.
func (f osFS) Share(name string) (io.Closer, error) {
	file, err := f.at(name).Open()
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return nil, notLocked(file, err)
	}
	return file, nil
}
