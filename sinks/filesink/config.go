package filesink

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Definition is the sink "file". Its batches are large, because a sync costs the
// same for one record as for thousands, and wait briefly, because nobody bills
// for a request.
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
	// Rotate says when the active file is finished.
	Rotate Rotate `yaml:"rotate"`
}

// Rotate says when the active file is finished and the next one begun. It
// happens before a batch is written: a file that nothing is added to stays
// active however old it is.
type Rotate struct {
	// MaxBytes bounds a file. A batch that is larger by itself gets a file of
	// its own. 0: no bound.
	MaxBytes config.Size `yaml:"maxBytes"`
	// MaxAge bounds the time from the first record of a file to the last. 0: no
	// bound.
	MaxAge config.Duration `yaml:"maxAge"`
}

func defaultConfig() *Config {
	return &Config{Rotate: Rotate{MaxBytes: 64 << 20, MaxAge: config.Duration(time.Hour)}}
}

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	if c.Directory == "" {
		p.Addf("directory", "is required: the directory to write the files to")
	}
	if c.Rotate.MaxBytes < 0 {
		p.Addf("rotate.maxBytes", "must not be negative")
	}
	if c.Rotate.MaxAge < 0 {
		p.Addf("rotate.maxAge", "must not be negative")
	}
	return p
}

// Open makes the directory where it is missing, takes its lock, and recovers
// what an earlier process left. Its errors are *sinks.Failure.
func (c *Config) Open(_ context.Context, env sinks.Env) (sinks.Sink, error) {
	return open(*c, env, disk{})
}

func open(c Config, env sinks.Env, d disk) (*sink, error) {
	if err := makeDirectory(c.Directory); err != nil {
		return nil, failure("make the directory", err)
	}
	s := &sink{config: c, log: env.Log, disk: d, buffer: bufio.NewWriterSize(nil, bufferSize)}
	if err := s.reopen(); err != nil {
		return nil, failure("open", err)
	}
	return s, nil
}

// makeDirectory makes dir and its parents, and syncs what it made: a directory
// whose entry is lost takes every file in it along. The mode is 0700 as that of
// the files is 0600: decisions quote the objects they are about, Secrets
// included.
func makeDirectory(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeDirectory(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return disk{}.syncDirectory(filepath.Dir(dir))
}
