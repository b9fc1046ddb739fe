// Package host tells what a reader of figures needs to know about the machine that they
// are of, what a process on it uses, and when something has happened there.
package host

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is what a reader needs to know about where the figures come from.
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"fileSystem"`
	Go         string `json:"go"`
}

// Lines describe the machine.
func (m Machine) Lines() []string {
	return []string{
		fmt.Sprintf("%s, %d cores, Linux %s", m.CPU, m.Cores, m.Kernel),
		fmt.Sprintf("file system %s, %s", m.FileSystem, m.Go),
	}
}

func (m Machine) String() string { return strings.Join(m.Lines(), ", ") }

// This describes the machine, and the file system that dir is on.
func This(dir string) (Machine, error) {
	m := Machine{CPU: cpuModel(), Cores: runtime.NumCPU(), Go: runtime.Version()}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("uname: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(name.Release[:])
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return m, fmt.Errorf("statfs %s: %w", dir, err)
	}
	m.FileSystem = fileSystemName(int64(stat.Type)) //nolint:unconvert // of another type on other processors
	return m, nil
}

// InMemory reports whether a sync costs nothing, which makes the figures idle.
func (m Machine) InMemory() bool { return m.FileSystem == "tmpfs" }

func fileSystemName(magic int64) string {
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return "tmpfs"
	}
	return fmt.Sprintf("%#x", magic)
}

// cpuModel is the model as the kernel names it; not every architecture has one.
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
