package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
)

// Bounds of the files that a configuration names. A token has some hundred bytes,
// a Kerberos one up to 48 KiB; the CA bundle of a whole system has 250 KiB.
const (
	maxSecretBytes = 64 << 10
	maxPEMBytes    = 1 << 20
)

// SecretFile is the path of a file that holds one secret: a token, a password.
// Only the path is ever shown, written or logged.
type SecretFile string

// Read returns the secret, without white space around it. It reads the file at
// each call, so that a rotated secret is in use at once. An error names the file
// and never what is in it.
func (f SecretFile) Read() (string, error) {
	data, err := readFile(string(f), maxSecretBytes)
	if err != nil {
		return "", fmt.Errorf("secret file %s: %w", f, err)
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" {
		return "", fmt.Errorf("secret file %s: is empty: write the secret into it", f)
	}
	// A newline in a token would end the header that carries it; a byte order
	// mark fails at the other end, where nobody can see why.
	if strings.ContainsFunc(secret, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", fmt.Errorf("secret file %s: holds a character that cannot be printed, such as a newline: write the secret as one line of text", f)
	}
	return secret, nil
}

// readFile reads a small regular file. A pipe or device is refused: it would
// block, and can be read only once. The error does not name the file.
func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withHint(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file: name the file itself")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, withHint(err)
	}
	defer f.Close() // read only: nothing can be lost
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, withHint(err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("is larger than %s: is it the right file?", Size(most))
	}
	return data, nil
}

// withHint drops the path from an error of package os and says what to do.
func withHint(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: mount it, or correct the path", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let the user of this process read it", err)
	}
	return err
}
