package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSecretFile(t *testing.T) {
	tests := map[string]struct {
		text, want string
		err        string // behind "secret file PATH: "
	}{
		"as it is":        {text: "s3cret", want: "s3cret"},
		"newline":         {text: "s3cret\n", want: "s3cret"},
		"Windows newline": {text: "s3cret\r\n", want: "s3cret"},
		"white space":     {text: " \ts3cret \n\n", want: "s3cret"},
		"space inside":    {text: "correct horse\n", want: "correct horse"},
		"not ASCII":       {text: "pässwörd\n", want: "pässwörd"},
		"largest":         {text: strings.Repeat("x", 64<<10), want: strings.Repeat("x", 64<<10)},
		"empty":           {text: "", err: "is empty: write the secret into it"},
		"only newlines":   {text: "\n\n", err: "is empty: write the secret into it"},
		"newline inside":  {text: "s3cret\nX-Other: s3cret", err: "holds a character that cannot be printed, such as a newline: write the secret as one line of text"},
		"NUL inside":      {text: "s3\x00cret", err: "holds a character that cannot be printed, such as a newline: write the secret as one line of text"},
		"byte order mark": {text: "\ufeffs3cret", err: "holds a character that cannot be printed, such as a newline: write the secret as one line of text"},
		"too large":       {text: "s3cret" + strings.Repeat("x", 64<<10), err: "is larger than 64Ki: is it the right file?"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			write(t, path, tt.text)
			got, err := SecretFile(path).Read()
			want := tt.err
			if want != "" {
				want = "secret file " + path + ": " + want
			}
			if got != tt.want || errText(err) != want {
				t.Errorf("got %.40q, %v\nwant %.40q, %s", got, err, tt.want, want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestSecretFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	_, err := SecretFile(filepath.Join(dir, "gone")).Read()
	want := "secret file " + dir + "/gone: no such file or directory: mount it, or correct the path"
	if errText(err) != want || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: got %v, want %s", err, want)
	}
	if got := withHint(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}); !errors.Is(got, fs.ErrPermission) ||
		got.Error() != "permission denied: let the user of this process read it" {
		t.Errorf("no permission: got %v", got)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe} {
		_, err := SecretFile(path).Read()
		if want := "secret file " + path + ": is not a regular file: name the file itself"; errText(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Kubernetes replaces a mounted secret by turning a symbolic link to another
// directory.
func TestSecretFileIsReadAtEachCall(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "..data")
	for _, version := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "token"), version+"\n")
		if err := os.Symlink(version, link+"_tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+"_tmp", link); err != nil {
			t.Fatal(err)
		}
		if got, err := SecretFile(filepath.Join(link, "token")).Read(); got != version || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, version)
		}
	}
}
