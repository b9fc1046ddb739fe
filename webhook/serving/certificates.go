package serving

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// rereadEvery is how old a look at the files may be when a client connects: kubelet takes
// a minute to bring a new Secret, so a second more is nothing, and a read costs 50 us.
const rereadEvery = time.Second

// certificates are the key pair in the files of Config.TLSDir. They are read again when a
// client connects, so there is nothing to start or to stop.
type certificates struct {
	dir string
	log *slog.Logger

	reading  sync.Mutex // held by the one caller that reads the files
	looked   time.Time  // guarded by reading
	lastRead [2][]byte  // the files of the pair in use; guarded by reading
	inUse    atomic.Pointer[state]
}

// state is what the last look at the files has come to.
type state struct {
	pair *tls.Certificate // nil as long as there was none
	err  error            // why the files are not in use; nil: they are
}

// newCertificates reads the pair in dir. It does not fail if there is none yet.
func newCertificates(dir string, log *slog.Logger) *certificates {
	c := &certificates{dir: dir, log: log}
	c.inUse.Store(new(state))
	c.reread()
	return c
}

// getCertificate is for tls.Config.GetCertificate. Calls may overlap, and only one at a
// time waits for the files.
func (c *certificates) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.reread()
	s := c.inUse.Load()
	if s.pair == nil {
		return nil, s.err
	}
	return s.pair, nil
}

// reread looks at the files unless somebody has within rereadEvery, or does right now. It
// logs a new pair, and a failure when it begins or changes.
func (c *certificates) reread() {
	if !c.reading.TryLock() {
		return
	}
	defer c.reading.Unlock()
	now := time.Now()
	if !c.looked.IsZero() && now.Sub(c.looked) < rereadEvery {
		return
	}
	c.looked = now
	was := c.inUse.Load()
	pair, err := c.read(was.pair)
	if err != nil {
		err = fmt.Errorf("certificate in %s: %w", c.dir, err)
	}
	c.inUse.Store(&state{pair, err})
	switch {
	case err != nil && (was.err == nil || err.Error() != was.err.Error()):
		c.log.Warn("the certificate cannot be used", "error", err, "lastGoodInUse", pair != nil)
	case err == nil && (pair != was.pair || was.err != nil):
		c.log.Info("certificate in use", "dir", c.dir, "serial", pair.Leaf.SerialNumber, "notAfter", pair.Leaf.NotAfter)
	}
}

// read returns the pair to use from now on, which is the one in use if the files have no
// better, and why they have none.
func (c *certificates) read(inUse *tls.Certificate) (*tls.Certificate, error) {
	var files [2][]byte
	for i, name := range []string{"tls.crt", "tls.key"} {
		text, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil {
			return inUse, err
		}
		files[i] = text
	}
	if inUse != nil && bytes.Equal(files[0], c.lastRead[0]) && bytes.Equal(files[1], c.lastRead[1]) {
		return inUse, nil
	}
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return inUse, err
	}
	if err := validNow(&pair); err != nil && inUse != nil && validNow(inUse) == nil {
		return inUse, err
	}
	c.lastRead = files
	return &pair, nil
}

func validNow(pair *tls.Certificate) error {
	now := time.Now()
	switch {
	case now.After(pair.Leaf.NotAfter):
		return fmt.Errorf("expired at %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	case now.Before(pair.Leaf.NotBefore):
		return fmt.Errorf("not valid before %s", pair.Leaf.NotBefore.Format(time.RFC3339))
	}
	return nil
}
