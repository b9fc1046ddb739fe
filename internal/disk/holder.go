package disk

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Holder is the process that holds a lock. Its pid has a meaning only on our host and in our
// pid namespace: process 1 of another container is not ours.
type Holder struct {
	PID       int    // 0 when unknown
	Host      string // empty: this one, and our pid namespace
	Container string // of a pod; empty: not known, or none
}

// String names the holder in a sentence.
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "another process"
	case h.Host == "":
		return fmt.Sprintf("process %d", h.PID)
	case h.Container == "":
		return fmt.Sprintf("process %d on host %s, in another pid namespace", h.PID, h.Host)
	}
	return fmt.Sprintf("process %d of container %s on host %s", h.PID, h.Container, h.Host)
}

// identity is what a lock file says of the process that holds it.
type identity struct{ pid, host, namespace, container string }

// maxIdentity is longer than any: a host name has at most 64 bytes, a container's 63.
const maxIdentity = 256

// ownIdentity is that of this process. What cannot be found out is left empty.
func ownIdentity() identity {
	host, _ := os.Hostname()
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	id := identity{pid: strconv.Itoa(os.Getpid()), host: host, namespace: namespace}
	if mounts, err := os.Open("/proc/self/mountinfo"); err == nil {
		id.container = containerOf(mounts)
		mounts.Close()
	}
	return id
}

// containerOf finds the container's name in the mounts of a process: the kubelet mounts a
// file of .../pods/UID/containers/NAME/ for the message of its end.
func containerOf(mountinfo io.Reader) string {
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		_, below, isPod := strings.Cut(fields[3], "/pods/")
		if parts := strings.Split(below, "/"); isPod && len(parts) == 4 && parts[1] == "containers" {
			return parts[2]
		}
	}
	return ""
}

// text is what the lock file holds. The pid is alone on the first line.
func (id identity) text() []byte {
	return []byte(strings.Join([]string{id.pid, id.host, id.namespace, id.container}, "\n") + "\n")
}

// holderOf reads the text of a lock file, as own sees it. A file of an earlier version has
// the pid alone.
func holderOf(text string, own identity) Holder {
	lines := append(strings.Split(text, "\n"), make([]string, 4)...)
	other := identity{pid: lines[0], host: lines[1], namespace: lines[2], container: lines[3]}
	pid, _ := strconv.Atoi(other.pid)
	if other.host == "" || other.host == own.host && other.namespace == own.namespace {
		return Holder{PID: pid}
	}
	return Holder{PID: pid, Host: nameIn(other.host), Container: nameIn(other.container)}
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
