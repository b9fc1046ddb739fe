package filesink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Definition is the sink "file". Its batches are large, because a sync costs the
// same for one record as for thousands, and wait briefly, because nobody bills
// for a request. It hears of gaps, because its manifest accounts for every record.
var Definition = sinks.Definition{
	Kind: "file",
	Batch: sinks.BatchLimits{
		MaxRecords: 4096,
		MaxBytes:   4 << 20,
		MaxWait:    config.Duration(200 * time.Millisecond),
	},
	NewConfig: func() sinks.Config { return defaultConfig() },
}

// Config is the section "file" of a sink.
type Config struct {
	// Directory holds the files. It is made when missing, and belongs to this
	// one sink.
	Directory string `yaml:"directory"`
	// Mode of every file in it, octal, whatever the umask. Empty: 0600 for those that are
	// made, and no change to others.
	Mode string `yaml:"mode"`
	// DirectoryMode is that of the directory and of those in it, octal. Empty: 0700 for
	// those that are made, and no change to others.
	DirectoryMode string `yaml:"directoryMode"`
	// Group that the directory and all in it belong to; empty: that of the process.
	Group config.Group `yaml:"group"`
	// Rotate says when the active file is finished.
	Rotate Rotate `yaml:"rotate"`
	// Compress says what the files are compressed with, the active one included.
	Compress Compression `yaml:"compress"`
	// Partition says which directory finished files go to.
	Partition Partition `yaml:"partition"`
	// Retain says when finished files are removed.
	Retain Retain `yaml:"retain"`
	// Signature says who vouches for the manifest. nil: nobody.
	Signature *Signature `yaml:"signature"`
}

// Rotate says when the active file is finished and the next one begun.
type Rotate struct {
	// MaxBytes bounds a file as it lies on disk. A batch that is larger by itself
	// gets a file of its own. 0: no bound.
	MaxBytes config.Size `yaml:"maxBytes"`
	// MaxAge bounds the time since the first record of a file was written that is no
	// checkpoint. It ends whether or not another one comes. 0: no bound.
	MaxAge config.Duration `yaml:"maxAge"`
}

// Retain says when finished files are removed. The newest of them stays in any
// case. 0: no bound.
type Retain struct {
	MaxAge        config.Duration `yaml:"maxAge"`        // since the file was finished
	MaxFiles      int             `yaml:"maxFiles"`      // finished files
	MaxTotalBytes config.Size     `yaml:"maxTotalBytes"` // of finished files, as they lie on disk
}

// Partition says which directory below that of the export finished files go to.
type Partition string

// The choices of Config.Partition.
const (
	NoPartition Partition = "None" // they stay
	Date        Partition = "Date" // the UTC day on which the first record was received
)

func defaultConfig() *Config {
	return &Config{
		Rotate:    Rotate{MaxBytes: 64 << 20, MaxAge: config.Duration(time.Hour)},
		Compress:  None,
		Partition: NoPartition,
	}
}

// Claims implements config.Claimer.
func (c *Config) Claims() []config.Claim {
	return []config.Claim{{Key: "directory", Kind: config.Directory, Value: c.Directory}}
}

// Ordered implements sinks.Ordered.
func (c *Config) Ordered() {}

// Replayable implements sinks.Replayable. A sink whose directory was lost begins anew with
// whatever it gets.
func (c *Config) Replayable() error {
	if _, err := os.Stat(filepath.Join(c.Directory, positionName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("is a file export, and has every record once: the position in %s tells it which it "+
		"has, and it would not write them again. Read them with docket queue cat, or add a file sink with a directory of "+
		"its own, which begins at the first kept record", c.Directory)
}

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	if c.Directory == "" {
		p.Addf("directory", "is required: the directory to write the files to")
	}
	for _, m := range []struct {
		path, value string
		needs       fs.FileMode
		why         string
	}{
		{"mode", c.Mode, 0o600, "must let its owner read and write. Take 0640, for example"},
		{"directoryMode", c.DirectoryMode, 0o700, "must let its owner do all. Take 0750, for example"},
	} {
		if m.value == "" {
			continue
		}
		if mode, err := config.ParseMode(m.value); err != nil {
			p.Addf(m.path, "%s", err)
		} else if mode&m.needs != m.needs {
			p.Addf(m.path, "%s", m.why)
		} else if mode&0o002 != 0 {
			p.Addf(m.path, "must not let everybody write: an export that anybody can change proves nothing")
		}
	}
	for _, bound := range []struct {
		path  string
		value int64
	}{
		{"rotate.maxBytes", int64(c.Rotate.MaxBytes)},
		{"rotate.maxAge", int64(c.Rotate.MaxAge)},
		{"retain.maxAge", int64(c.Retain.MaxAge)},
		{"retain.maxFiles", int64(c.Retain.MaxFiles)},
		{"retain.maxTotalBytes", int64(c.Retain.MaxTotalBytes)},
	} {
		if bound.value < 0 {
			p.Addf(bound.path, "must not be negative")
		}
	}
	p.Check("compress", c.Compress.check())
	p.Check("partition", config.Choice(c.Partition, NoPartition, Date))
	if c.Signature != nil && c.Signature.KeyFile == "" {
		p.Addf("signature.keyFile", "is required: an Ed25519 private key, as docket keygen makes it")
	}
	return p
}

// Open makes the directory where it is missing, takes its lock, and recovers
// what an earlier process left. Its errors are *sinks.Failure.
func (c *Config) Open(_ context.Context, env sinks.Env) (sinks.Sink, error) {
	return open(*c, env, nil)
}
