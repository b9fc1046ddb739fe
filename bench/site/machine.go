package site

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/trial"
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

// machine describes this machine, and the file system that dir is on.
func machine(dir string) Machine {
	var name unix.Utsname
	trial.Check(unix.Uname(&name))
	var stat unix.Statfs_t
	trial.Check(unix.Statfs(dir, &stat))
	return Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Go: runtime.Version(), Kernel: unix.ByteSliceToString(name.Release[:]),
		FileSystem: fileSystemName(int64(stat.Type)), //nolint:unconvert // of another type on other processors
	}
}

// inMemory is a file system on which a sync costs nothing, which makes the figures idle.
const inMemory = "tmpfs"

func fileSystemName(magic int64) string {
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", unix.TMPFS_MAGIC: inMemory, unix.RAMFS_MAGIC: inMemory,
	}
	if name, ok := names[magic]; ok {
		return name
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
