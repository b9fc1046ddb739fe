package filesink

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Signature says how the manifest is signed.
type Signature struct {
	// KeyFile holds an Ed25519 private key, in PEM form as docket keygen makes it.
	// It signs the lines of the manifest. It is read for each line, so a new key
	// is in use at once.
	KeyFile string `yaml:"keyFile" file:"secret"`
}

// maxKeyFile is far beyond the 119 bytes of a key.
const maxKeyFile = 64 << 10

// key reads the key; nil when s is, for no signatures. Its errors are
// *sinks.Failure and show nothing of the content.
func (s *Signature) key() (ed25519.PrivateKey, error) {
	if s == nil {
		return nil, nil
	}
	key, err := readKey(s.KeyFile)
	if err != nil {
		return nil, sinks.Failf(sinks.Misconfigured,
			"file sink: signature key file %s: %w: make a key with docket keygen, and let user %d read it", s.KeyFile, err, os.Geteuid())
	}
	return key, nil
}

func readKey(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxKeyFile) {
		return nil, fmt.Errorf("not a file of at most %d bytes", maxKeyFile)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, pathErr.Err // the caller names the path
	}
	if err != nil {
		return nil, err
	}
	return manifest.ParsePrivateKey(text)
}
