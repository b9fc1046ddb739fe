package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Other is another export as a Reference: its finished files. The comparison does
// not prove Other: Run it as well.
type Other struct {
	dir    string
	root   *os.Root
	queues []string
	file   *os.File // the manifest
	end    int64    // of its last whole line
}

// OpenOther opens the export in dir and reads its manifest. The caller closes
// it.
func OpenOther(dir string) (*Other, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	o := &Other{dir: dir, root: root}
	if err := o.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("export %s: %w", dir, err), o.Close())
	}
	return o, nil
}

func (o *Other) open() (err error) {
	o.file, _, err = open(o.root, manifest.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the directory has no %s", ErrNoExport, manifest.FileName)
	}
	if err != nil {
		return err
	}
	lines := manifest.NewReader(o.file)
	for {
		line, err := lines.Next()
		if err != nil {
			o.end = lines.End()
			return ignoreEOF(err)
		}
		if e := line.Entry; e != nil && !slices.Contains(o.queues, e.Queue) {
			o.queues = append(o.queues, e.Queue)
		}
	}
}

// Close releases its files.
func (o *Other) Close() error {
	if o.file != nil {
		o.file.Close()
	}
	return o.root.Close()
}

// Queues implements Reference.
func (o *Other) Queues() []string { return o.queues }

// Due implements Reference: what is in one export has to be in the other.
func (o *Other) Due(string) uint64 { return math.MaxUint64 }

// Read implements Reference.
func (o *Other) Read(ctx context.Context, queue string, from uint64, record func(Record) error) error {
	x := export{root: o.root, lines: linesOf(o.file, o.end)}
	c := x.cursor(ctx, queue)
	defer c.close()
	for {
		at, seq, err := c.following(from)
		if err != nil {
			return fmt.Errorf("export %s: %w", o.dir, err)
		}
		if c.atEnd {
			return nil
		}
		if at.kind != isRecord {
			continue
		}
		if err := record(Record{Seq: seq, Data: at.data}); err != nil {
			return err
		}
	}
}
