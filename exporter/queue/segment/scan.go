package segment

import (
	"errors"
	"io"
)

// TailEnd returns where the last frame of this epoch ends that begins at from or
// later, whole or, at from, by what its header says.
func TailEnd(file File, epoch uint64, from, size int64) (int64, error) {
	var reader Reader
	reader.Open(file, epoch)
	reader.MoveTo(from)
	end := min(size, from+reader.ClaimedSize(size))
	for {
		f, err := reader.Resync(0, size)
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		reader.Skip(&f)
		end = max(end, reader.Off)
	}
}
