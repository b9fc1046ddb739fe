package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// read checks the file of an entry.
func (v *verifier) read(f *listed) error {
	if v.report.Break != nil {
		return nil // the first break is known, but for files missing before it
	}
	c, err := v.hash(f.entry)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.missing = f.breakOf(FileMissing, "a file of "+bytesText(f.entry.Bytes), "no file")
	case errors.Is(err, errNotAFile):
		f.missing = f.breakOf(NotAFile, "a regular file", err.Error())
	case err != nil:
		return err
	default:
		if b := f.judge(c); b != nil {
			v.broken(b)
			return nil
		}
		f.proven = true
		v.count(f.entry)
	}
	return nil
}

// hash reads the file of e.
func (v *verifier) hash(e *manifest.Entry) (content, error) {
	f, info, err := open(v.root, e.Name)
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	c, err := hashFile(v.ctx, f, e.Bytes, v.buffer, v.Progress)
	if c.size == e.Bytes {
		c.size = max(c.size, info.Size())
	}
	c.counted = !isCompressed(e.Name)
	return c, err
}

func (v *verifier) count(e *manifest.Entry) {
	v.report.Files++
	v.report.Bytes += e.Bytes
	v.report.Records += e.Records
}

func (v *verifier) uncount(e *manifest.Entry) {
	v.report.Files--
	v.report.Bytes -= e.Bytes
	v.report.Records -= e.Records
}

// judge compares the content of a file with its entry.
func (f *listed) judge(c content) *Break {
	e := f.entry
	switch {
	case c.size < e.Bytes:
		return f.breakOf(FileTruncated, bytesText(e.Bytes), bytesText(c.size))
	case c.size > e.Bytes && c.hash == e.SHA256:
		return f.breakOf(FileExtended, bytesText(e.Bytes), bytesText(c.size)+", and the first ones are as expected")
	case c.size > e.Bytes:
		return f.breakOf(FileChanged, hashText(e.SHA256, e.Bytes), bytesText(c.size)+", and the first ones are different")
	case c.hash != e.SHA256:
		return f.breakOf(FileChanged, hashText(e.SHA256, e.Bytes), hashText(c.hash, c.size))
	case c.counted && (c.newlines != e.Records || c.torn):
		return f.breakOf(WrongCount, countText(e.Records, "line"), countText(c.newlines, "line")+" that end with a newline")
	}
	return nil
}

func hashText(h manifest.Hash, size int64) string {
	return fmt.Sprintf("SHA-256 %s of %s", h, bytesText(size))
}

func bytesText(n int64) string { return countText(uint64(n), "byte") }

// countText is "1 record" or "7 records".
func countText(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatUint(n, 10) + " " + noun + "s"
}
