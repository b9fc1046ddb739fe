package config

import (
	"fmt"
	"io/fs"
	"os/user"
	"strconv"
	"strings"
)

// ParseMode reads the mode of a file in octal.
func ParseMode(s string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(s, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("must be an octal mode such as 0660, not %q", s)
	}
	return fs.FileMode(mode), nil
}

// OwnGroup stands for the group that the process makes files with.
const OwnGroup = -1

// Group is the name or the number of a group.
type Group string

// UnmarshalText takes the text as it is: a number needs no quotes.
func (g *Group) UnmarshalText(text []byte) error {
	*g = Group(text)
	return nil
}

// Lookup returns the number of the group, OwnGroup for the empty one. A container often
// knows only the names of its own groups. Numbers always work.
func (g Group) Lookup() (gid int, err error) {
	if g == "" {
		return OwnGroup, nil
	}
	text := string(g)
	if strings.Trim(text, "0123456789") != "" {
		found, err := user.LookupGroup(text)
		if err != nil {
			return 0, fmt.Errorf("group %s: %w: correct the name, or give the group's number", g, err)
		}
		text = found.Gid
	}
	id, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("group %s: %w", g, err)
	}
	return int(id), nil
}
