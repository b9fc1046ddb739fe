package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/docket-export/docket/config"
)

// key is the key in a file. It can be used from any goroutine.
type key struct {
	file config.SecretFile

	mu     sync.Mutex
	info   fs.FileInfo // of the file when it was read; guarded by mu
	secret []byte      // never changed; guarded by mu
}

// read returns the key that is in the file now. One look at the file's inode tells
// whether it has changed.
func (k *key) read() ([]byte, error) {
	info, statErr := os.Stat(string(k.file))
	k.mu.Lock()
	defer k.mu.Unlock()
	if statErr == nil && k.info != nil && os.SameFile(info, k.info) &&
		info.ModTime().Equal(k.info.ModTime()) && info.Size() == k.info.Size() {
		return k.secret, nil
	}
	text, err := k.file.Read() // which says what is wrong, where Stat could not
	if err != nil {
		return nil, fmt.Errorf("HMAC key: %w", err)
	}
	k.info, k.secret = info, []byte(text)
	return k.secret, nil
}

// appendHMAC appends the HMAC of plain as a JSON string.
func appendHMAC(dst, plain, secret []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write(plain)
	dst = append(dst, `"hmac-sha256:`...)
	dst = hex.AppendEncode(dst, mac.Sum(nil))
	return append(dst, '"')
}
