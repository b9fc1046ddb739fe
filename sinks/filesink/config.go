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
// same for one record as for thousands, and wait briefly, because nobody bills for
// a request. It receives gaps, because its manifest accounts for every record.
var Definition = sinks.Definition{
	Kind: "file",
	Batch: sinks.BatchLimits{
		MaxRecords: 4096,
		MaxBytes:   4 << 20,
		MaxWait:    config.Duration(200 * time.Millisecond),
	},
	NewConfig: func() sinks.Config { return defaultConfig() },
	Sample: `# Files of records, with a manifest. docket verify proves that they are complete.
- name: NAME
  #when: record.enforcementAction == "deny"   # only these records; without it, all
  file:
    # CHANGE: a directory that is kept, such as /var/log/docket
    directory: docket-data/exportCOUNT
    #compress: zstd                           # or gzip
    #rotate: {maxBytes: 64Mi, maxAge: 1h}     # when a file is finished
    #retain: {maxAge: 2160h}                  # 90 days; without it, finished files stay
    #signature: {keyFile: /etc/docket/export.key}   # made by docket keygen
`,
}

// Config is the section "file" of a sink.
type Config struct {
	// Directory holds the files. It is made when missing, and belongs to this
	// one sink.
	Directory string `yaml:"directory"`
	// Mode of every file in it, octal, whatever the umask. Empty: 0600 for new files, and
	// no change to others.
	Mode string `yaml:"mode"`
	// DirectoryMode is the mode of the directory, and of those of days that earlier builds have
	// made in it, octal.
	// Empty: 0700 for new directories, and no change to others.
	DirectoryMode string `yaml:"directoryMode"`
	// Group is the group of the directory and all in it; empty: the group of the
	// process.
	Group config.Group `yaml:"group"`
	// Rotate says when the active file is finished.
	Rotate Rotate `yaml:"rotate"`
	// Compress says how the files are compressed, the active one included.
	Compress Compression `yaml:"compress"`
	// Retain says when finished files are removed.
	Retain Retain `yaml:"retain"`
	// Signature signs the manifest. nil: the manifest is not signed.
	Signature *Signature `yaml:"signature"`
}

// Rotate says when the active file is finished and the next one begun.
type Rotate struct {
	// MaxBytes bounds a file as it lies on disk. A batch that is larger by itself
	// gets a file of its own. A batch that is to be compressed counts as it is. 0: no bound.
	MaxBytes config.Size `yaml:"maxBytes"`
	// MaxAge bounds the age of a file: the time since its first record that is no
	// checkpoint. The file is finished at that age even if no record follows. 0: no
	// bound.
	MaxAge config.Duration `yaml:"maxAge"`
}

// Retain says when finished files are removed. The newest of them stays in any
// case. 0: no bound.
type Retain struct {
	MaxAge        config.Duration `yaml:"maxAge"`        // since the file was finished
	MaxFiles      int             `yaml:"maxFiles"`      // finished files
	MaxTotalBytes config.Size     `yaml:"maxTotalBytes"` // of finished files, as they lie on disk
}

func defaultConfig() *Config {
	return &Config{
		Rotate:   Rotate{MaxBytes: 64 << 20, MaxAge: config.Duration(time.Hour)},
		Compress: None,
	}
}

// FormerKeys implements config.Reduced.
func (*Config) FormerKeys() map[string]string {
	return map[string]string{"partition": "is gone: the name of a finished file has its time. Remove the key, and select files by their names"}
}

// Claims implements config.Claimer.
func (c *Config) Claims() []config.Claim {
	return []config.Claim{{Key: "directory", Kind: config.Directory, Value: c.Directory}}
}

// Ordered implements sinks.Ordered.
func (c *Config) Ordered() {}

// Replayable implements sinks.Replayable. A sink whose directory was lost starts over with
// the records that it gets.
func (c *Config) Replayable() error {
	if _, err := os.Stat(filepath.Join(c.Directory, positionName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("is a file export, which takes every record once: its position in %s "+
		"would skip replayed records. Read them with docket queue cat, or add a file sink with its "+
		"own directory, which starts at the first kept record", c.Directory)
}

// Validate implements sinks.Config.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	p.Check("directory", config.Required(c.Directory, "is required: the directory to write the files to"))
	p.Check("mode", checkMode(c.Mode, 0o600, "must let its owner read and write, such as 0640"))
	p.Check("directoryMode", checkMode(c.DirectoryMode, 0o700, "must let its owner read, write and enter, such as 0750"))
	p.Check("compress", config.Choice(c.Compress, None, Gzip, Zstd))
	p.Check("rotate.maxBytes", config.NotNegative(c.Rotate.MaxBytes))
	p.Check("rotate.maxAge", config.NotNegative(c.Rotate.MaxAge))
	p.Check("retain.maxAge", config.NotNegative(c.Retain.MaxAge))
	p.Check("retain.maxFiles", config.NotNegative(c.Retain.MaxFiles))
	p.Check("retain.maxTotalBytes", config.NotNegative(c.Retain.MaxTotalBytes))
	if c.Signature != nil {
		p.Check("signature.keyFile", config.Required(c.Signature.KeyFile, "is required: an Ed25519 private key, made by docket keygen"))
	}
	return p
}

// checkMode refuses a mode that lacks some of the owner's bits, and says why. An empty one is the
// default.
func checkMode(text string, needs fs.FileMode, why string) error {
	if text == "" {
		return nil
	}
	switch mode, err := config.ParseMode(text); {
	case err != nil:
		return err
	case mode&needs != needs:
		return errors.New(why)
	case mode&0o002 != 0:
		return errors.New("must not let everybody write: anybody could change the export, and it would prove nothing")
	}
	return nil
}

// Open makes the directory where it is missing, takes its lock, and recovers
// what an earlier process left. Its errors are *sinks.Failure.
func (c *Config) Open(_ context.Context, env sinks.Env) (sinks.Sink, error) {
	return open(*c, env, nil)
}
