package disk

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Holder is the process that holds a lock. Its pid may be that of another host, or of another
// container.
type Holder struct {
	PID  int // 0 when unknown
	Host string
}

// String names the holder in a sentence.
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "another process"
	case h.Host == "":
		return fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("process %d on host %s", h.PID, h.Host)
}

// maxHolder is longer than any text of a lock file: a host name has at most 64 bytes.
const maxHolder = 256

// ownHolder is the text of a lock file that this process holds.
func ownHolder() []byte {
	host, _ := os.Hostname() // empty when it cannot be found out
	return fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), host)
}

// holderOf reads the text of a lock file.
func holderOf(text string) Holder {
	pid, host, _ := strings.Cut(text, "\n")
	host, _, _ = strings.Cut(host, "\n")
	n, _ := strconv.Atoi(pid)
	return Holder{PID: n, Host: nameIn(host)}
}

// nameIn returns a name of a lock file for a message: others may be able to write the file, and
// a terminal obeys what no name has.
func nameIn(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r) {
			return r
		}
		return '?'
	}, text)
}
