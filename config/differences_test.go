package config_test

import (
	"slices"
	"testing"

	"github.com/docket-export/docket/config"
)

type differing struct {
	Name  string            `yaml:"name"`
	Size  config.Size       `yaml:"size"`
	Inner *differingPart    `yaml:"inner"`
	Map   map[string]string `yaml:"map"`
}

type differingPart struct {
	On   bool            `yaml:"on"`
	List []differingItem `yaml:"list"`
}

type differingItem struct {
	N int `yaml:"n"`
}

func TestDifferences(t *testing.T) {
	whole := func() differing {
		return differing{
			Name: "a", Size: 1 << 20, Map: map[string]string{"k": "1"},
			Inner: &differingPart{On: true, List: []differingItem{{1}, {2}}},
		}
	}
	for name, tt := range map[string]struct {
		change func(*differing)
		want   []string
	}{
		"nothing":        {func(*differing) {}, nil},
		"another copy":   {func(d *differing) { inner := *d.Inner; d.Inner = &inner }, nil},
		"two keys":       {func(d *differing) { d.Name, d.Size = "b", 2 }, []string{"name", "size"}},
		"below":          {func(d *differing) { d.Inner.On = false }, []string{"inner.on"}},
		"in a list":      {func(d *differing) { d.Inner.List[1].N = 3 }, []string{"inner.list"}},
		"a longer list":  {func(d *differing) { d.Inner.List = append(d.Inner.List, differingItem{}) }, []string{"inner.list"}},
		"gone":           {func(d *differing) { d.Inner = nil }, []string{"inner"}},
		"a key of a map": {func(d *differing) { d.Map["k"] = "2"; d.Map["new"] = "1" }, []string{"map.k", "map.new"}},
	} {
		t.Run(name, func(t *testing.T) {
			after := whole()
			tt.change(&after)
			got, err := config.Differences(whole(), after)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if back, _ := config.Differences(after, whole()); !slices.Equal(back, tt.want) {
				t.Errorf("the other way round: got %q, want %q", back, tt.want)
			}
		})
	}
}
