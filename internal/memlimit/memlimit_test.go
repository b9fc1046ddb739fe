package memlimit

import (
	"log/slog"
	"maps"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
)

// What the kernel says in the places where docket may run.
const (
	version2   = "0::/\n"
	version2Of = "0::/kubepods.slice/kubepods-burstable.slice/pod1/c1\n"
	version1   = "12:cpu,cpuacct:/kubepods/pod1/c1\n7:memory:/kubepods/pod1/c1\n1:name=systemd:/kubepods/pod1/c1\n0::/\n"
	joined1    = "3:cpu,memory,io:/c1\n"
	noMemory1  = "9:name=systemd:/\n1:cpu:/\n"
	unlimited1 = "9223372036854771712\n" // pages of 4 KiB
	largePages = "9223372036854710272\n" // pages of 64 KiB
	mebibytes  = 1 << 20
)

func TestContainerMemory(t *testing.T) {
	for name, c := range map[string]struct {
		groups string
		files  map[string]string // below /sys/fs/cgroup
		want   int64
		fault  string
	}{
		"version 2":                       {groups: version2, files: map[string]string{"memory.max": "67108864\n"}, want: 64 * mebibytes},
		"version 2, no limit":             {groups: version2, files: map[string]string{"memory.max": "max\n"}},
		"version 2 without the files":     {groups: version2},
		"version 2, empty file":           {groups: version2, files: map[string]string{"memory.max": ""}},
		"version 2, the pod has the less": {groups: version2Of, files: podLimits("max\n", "33554432\n"), want: 32 * mebibytes},
		"version 2, its own is the less":  {groups: version2Of, files: podLimits("16777216\n", "33554432\n"), want: 16 * mebibytes},
		"version 2, path of the node":     {groups: version2Of, files: map[string]string{"memory.max": "67108864\n"}, want: 64 * mebibytes},
		"version 2, outside of the mount": {groups: "0::/../../c1\n", files: map[string]string{"c1/memory.max": "1048576\n"}, want: mebibytes},
		"version 1":                       {groups: version1, files: version1Limit("/kubepods/pod1/c1", "134217728\n"), want: 128 * mebibytes},
		"version 1, path of the node":     {groups: version1, files: version1Limit("", "134217728\n"), want: 128 * mebibytes},
		"version 1, no limit":             {groups: version1, files: version1Limit("", unlimited1)},
		"version 1, no limit, large page": {groups: version1, files: version1Limit("", largePages)},
		"version 1, controllers joined":   {groups: joined1, files: version1Limit("/c1", "1048576\n"), want: mebibytes},
		"version 1, memory not managed":   {groups: noMemory1, files: version1Limit("", "1048576\n")},
		"no groups":                       {groups: ""},
		"no number":                       {groups: version2, files: map[string]string{"memory.max": "much\n"}, fault: "/sys/fs/cgroup/memory.max: "},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := containerMemory(kernel(c.groups, c.files))
			if (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Fatalf("got error %v, want one with %q", err, c.fault)
			}
			if got != c.want {
				t.Errorf("got a limit of %d, want %d", got, c.want)
			}
		})
	}
}

// TestContainerMemoryHere: whatever this machine has, it is read without an error.
func TestContainerMemoryHere(t *testing.T) {
	if _, err := containerMemory(os.DirFS("/")); err != nil {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	const all = 64 * mebibytes
	for name, c := range map[string]struct {
		env  map[string]string
		want Settings
	}{
		"nothing is said": {want: Settings{gcPercent: gcPercent, limit: all - leastHeadroom, container: all}},
		"GOGC":            {env: map[string]string{"GOGC": "100"}, want: Settings{limit: all - leastHeadroom, container: all}},
		"GOMEMLIMIT":      {env: map[string]string{"GOMEMLIMIT": "1GiB"}, want: Settings{gcPercent: gcPercent}},
		"both":            {env: map[string]string{"GOGC": "off", "GOMEMLIMIT": "off"}},
	} {
		t.Run(name, func(t *testing.T) {
			getenv := func(key string) string { return c.env[key] }
			got, err := choose(getenv, kernel(version2, map[string]string{"memory.max": "67108864\n"}), all)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestLimitWithin(t *testing.T) {
	for _, c := range []struct{ container, want int64 }{
		{0, 0},
		{16 * mebibytes, 8 * mebibytes},
		{32 * mebibytes, 16 * mebibytes},
		{64 * mebibytes, 48 * mebibytes},
		{1000 * mebibytes, 900 * mebibytes},
	} {
		if got := limitWithin(c.container); got != c.want {
			t.Errorf("got %d within %d, want %d", got, c.container, c.want)
		}
	}
}

// TestFor: what is chosen is what the collector goes by, and stands in the log;
// a kernel that tells nothing is no trouble.
func TestFor(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	none := func(string) string { return "" }
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))

	const ceiling = 66 * mebibytes
	For(none, fstest.MapFS{}, ceiling, log).Apply()
	if got, want := debug.SetMemoryLimit(-1), int64(66*mebibytes-programPages); got != want {
		t.Errorf("got a limit of %d where the kernel tells nothing, want %d, below the ceiling", got, want)
	}
	For(none, kernel(version2, map[string]string{"memory.max": "67108864\n"}), ceiling, log).Apply()
	if got, want := debug.SetMemoryLimit(-1), int64(48*mebibytes); got != want {
		t.Errorf("got a limit of %d, want %d", got, want)
	}
	if got := debug.SetGCPercent(100); got != gcPercent {
		t.Errorf("got GOGC %d, want %d", got, gcPercent)
	}
	if want := `limit=64Mi ceiling=66Mi`; !strings.Contains(text.String(), want) {
		t.Errorf("got log %q, want a warning with %q", text.String(), want)
	}
	if want := "GOGC=30 GOMEMLIMIT=48Mi container=64Mi\n"; !strings.HasSuffix(text.String(), want) {
		t.Errorf("got log %q, want %q at its end", text.String(), want)
	}
}

// kernel is a root directory in which the kernel tells the groups of this process, and
// has files below /sys/fs/cgroup.
func kernel(groups string, files map[string]string) fstest.MapFS {
	root := fstest.MapFS{"proc/self/cgroup": {Data: []byte(groups)}}
	for name, text := range files {
		root["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

// podLimits are the files of a container that has own and is in a pod that has pod.
func podLimits(own, pod string) map[string]string {
	files := map[string]string{"kubepods.slice/memory.max": "max\n", "kubepods.slice/kubepods-burstable.slice/memory.max": "max\n"}
	maps.Copy(files, map[string]string{
		"kubepods.slice/kubepods-burstable.slice/pod1/memory.max":    pod,
		"kubepods.slice/kubepods-burstable.slice/pod1/c1/memory.max": own,
	})
	return files
}

func version1Limit(group, limit string) map[string]string {
	return map[string]string{"memory" + group + "/memory.limit_in_bytes": limit}
}
