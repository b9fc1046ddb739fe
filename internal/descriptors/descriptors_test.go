package descriptors

import (
	"io/fs"
	"slices"
	"testing"
)

func TestShare(t *testing.T) {
	for name, tt := range map[string]struct {
		limit   uint64
		reserve int
		want    []int
		have    []int
	}{
		"enough for all":        {1024, 400, []int{256, 128}, []int{256, 128}},
		"in proportion":         {1024, 424, []int{1000, 200}, []int{500, 100}},
		"everyone gets one":     {1024, 1000, []int{100000, 1}, []int{255, 1}},
		"the reserve is larger": {64, 400, []int{256}, []int{16}},
		"no limit":              {1 << 63, 400, []int{1 << 20}, []int{1 << 20}},
		"nobody wants any":      {1024, 400, nil, []int{}},
	} {
		if got := Share(tt.limit, tt.reserve, tt.want); !slices.Equal(got, tt.have) {
			t.Errorf("%s: got %v, want %v", name, got, tt.have)
		}
	}
}

func TestThreads(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		n     int
		ok    bool
	}{
		"of its own group": {map[string]string{"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/pids.max": "100\n"}, 100, true},
		"in a container":   {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup//pids.max": "50\n"}, 50, true},
		"without a limit":  {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup//pids.max": "max\n"}, 0, false},
		"without a group":  {nil, 0, false},
	} {
		n, ok := readThreads(func(file string) ([]byte, error) {
			if text, found := tt.files[file]; found {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		})
		if ok != tt.ok || ok && n != tt.n {
			t.Errorf("%s: got %d, %t", name, n, ok)
		}
	}
}
