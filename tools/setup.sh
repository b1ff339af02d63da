# shellcheck shell=bash
# Installs what the sets of sets.toml name: Debian's packages, Python packages, and what is fetched.
# ./nearkv sources this file, which uses its variables, say(), die() and run_logged().

# sets.toml as it is read: table[sets.core.apt] holds the words of that list.
declare -A table=()
set_names=()

read_table() {
  local line section='' key='' name
  table=() set_names=()
  while IFS= read -r line; do
    line=${line%%#*}
    case $line in
      '['*)
        section=${line//[\[\]\"]/}
        section=${section% }
        [[ $section == sets.* ]] && set_names+=("${section#sets.}")
        table[$section]=1
        ;;
      [a-z]*=*) key=$section.${line%% =*} line=${line#*=} ;;&
      *)
        [[ $key == *.what ]] || line=${line//[\[\],]/ }
        for name in ${line//\"/}; do table[$key]+="${table[$key]:+ }$name"; done
        ;;
    esac
  done <"$root/sets.toml"
}

with_needs() { # SET... -> those and the sets that they are built on, each after what it needs
  local name need seen=''
  add() {
    [[ " $seen " == *" $1 "* ]] && return
    [[ ${table[sets.$1]:-} ]] || die "no set '$1'; there are: ${set_names[*]} all" 2
    for need in ${table[sets.$1.needs]:-}; do add "$need"; done
    seen+=" $1"
  }
  for name in "$@"; do add "$name"; done
  echo "$seen"
}

set_up_by_hand() { # [SET...]
  local wanted=("$@")
  [[ "${*:-all}" == all ]] && wanted=("${set_names[@]}")
  rm -f "$stamps"/packages-*
  set_up "${wanted[*]}" ''
  say "set up:$(with_needs "${wanted[@]}")"
}

# Leaves in `configured_sets` what was set up, for build().
set_up() { # SETS ALSO, each several words
  local sets also name
  # shellcheck disable=SC2086 # words
  { sets=$(with_needs $1) && also=$(with_needs $2); } || exit $?
  for name in $sets; do also=" $also " also=${also/ $name / }; done
  configured_sets="$sets $also"
  mkdir -p "$stamps" "$logs" || die "cannot write below $root/build: mend its rights, or free the disk"
  exec 9>"$stamps/lock" # held until the command's program starts
  flock --nonblock 9 || { say "waiting for another ./nearkv to set up" && flock 9; }
  ensure_packages "$sets" "$also"
  ensure_python "$sets" "$also"
}

words() { # KEY SET... -> the words of a key of these sets
  local key=$1 name; shift
  for name in "$@"; do echo "${table[sets.$name.$key]:-}"; done
}

stamp_of() { # packages or installed, SET -> the file that says that a set's packages are here
  local entry="sets.$2"
  if [[ $1 == packages ]]; then
    echo "$stamps/packages-$2-$(digest "${table[$entry.apt]:-} ${table[$entry.apt_optional]:-}")"
  else
    echo "$venv/installed-$2-$(digest "${table[$entry.pip]:-} ${table[$entry.fetch]:-} $(<"$root/requirements.txt")")"
  fi
}

unstamped() { # packages or installed, SET... -> the sets that are still to be installed
  local kind=$1 name; shift
  for name in "$@"; do [[ -e $(stamp_of "$kind" "$name") ]] || echo "$name"; done
}

# shellcheck disable=SC2046,SC2086 # words
ensure_packages() { # SETS ALSO
  local name new_sets new_also required optional
  [[ ${NEARKV_NO_PACKAGES:-} == 1 ]] && return
  new_sets=$(unstamped packages $1) new_also=$(unstamped packages $2)
  [[ $new_sets$new_also ]] || return 0
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    die "there is no apt-get here. Install what these Debian packages hold, then call again with \
NEARKV_NO_PACKAGES=1: $(echo $(words apt $1))"
  mapfile -t required < <(missing_packages $(words apt $new_sets))
  mapfile -t optional < <(missing_packages $(words apt_optional $new_sets $new_also) $(words apt $new_also))
  if ((${#required[@]} + ${#optional[@]} == 0)); then
    : # everything is here
  elif become_root; then
    run_logged "refreshing the package index" apt-update "${as_root[@]}" apt-get update || true
    rm -f "$logs/apt-required.log"
    install_packages required "${required[@]}" || {
      [[ ! -e $logs/apt-required.log ]] || { advise apt-required && say "$advice"; }
      die_missing "${required[@]}"
    }
    mapfile -t required < <(missing_packages "${required[@]}")
    ((${#required[@]} == 0)) || say "not packaged for this system: ${required[*]}"
    install_packages optional "${optional[@]}" || say "going on without: ${optional[*]}"
  elif ((${#required[@]})); then
    die_missing "${required[@]}"
  else
    say "optional packages that are not here: ${optional[*]}"
  fi
  for name in $new_sets $new_also; do touch "$(stamp_of packages $name)"; done
}

missing_packages() { # NAME... -> those that are not installed
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>&1 | grep -q ^installed || echo "$package"
  done
}

install_packages() { # TIER NAME...
  local tier=$1 available; shift
  # Ubuntu's chromium is a snap, which cannot read a build folder: it counts as absent.
  mapfile -t available < <(apt-cache policy "$@" 2>/dev/null | awk '
    /^[^ ]/ { name = $1; sub(/:$/, "", name) }
    $1 == "Candidate:" && $2 != "(none)" && $2 !~ /snap/ { print name }')
  ((${#available[@]})) || { [[ $tier == optional || $# == 0 ]]; return; }
  run_logged "installing ${#available[@]} $tier packages" "apt-$tier" \
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 \
    install --yes --no-install-recommends "${available[@]}"
}

become_root() { # sets as_root, the words that precede a command
  as_root=()
  [[ $(id -u) == 0 ]] && return
  as_root=(sudo)
  command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }; }
}

die_missing() { # NAME...
  say "these packages are missing, and cannot be installed from here: $*"
  printf '%s\n' "This line installs them:" \
    "  sudo apt-get update && sudo apt-get install --no-install-recommends $*" >&2
  exit 1
}

# shellcheck disable=SC2046,SC2086 # words
ensure_python() { # SETS ALSO
  local python=$venv/bin/python name new_sets new_also base made
  new_sets=$(unstamped installed $1) new_also=$(unstamped installed $2)
  [[ $(echo $(words pip $new_sets $new_also)) ]] || return 0
  made=$venv/made-$(digest "$venv $("$python" --version 2>/dev/null)")
  if [[ ! -e $made ]]; then
    new_sets=$1 new_also=$2
    base=$(find_python)
    run_logged "making .venv" venv "$base" -m venv --clear "$venv" || die_step venv
    touch "$venv/made-$(digest "$venv $("$python" --version)")"
  fi
  if ! pip_install $(words pip $new_sets $new_also); then
    [[ $(echo $(words pip $new_also)) ]] || die_step pip
    say "trying without the sets that can be done without: $(echo $new_also)"
    new_also=
    pip_install $(words pip $new_sets) || die_step pip
  fi
  for name in $new_sets $new_also; do
    rm -f "$venv/installed-$name-"*
    fetch_all "$python" ${table[sets.$name.fetch]:-} || continue # Tried again by the next call.
    touch "$(stamp_of installed $name)"
  done
}

pip_install() { # NAME...
  run_logged "installing Python packages" pip "$venv/bin/python" -m pip install \
    --disable-pip-version-check --constraint "$root/requirements.txt" "$@"
}

fetch_all() { # PYTHON NAME...
  local python=$1 name status=0; shift
  for name in "$@"; do
    run_logged "fetching ${name//_/ }" "$name" "fetch_$name" "$python" ||
      { say "going on without ${name//_/ }" && status=1; }
  done
  return $status
}

# SmolLM2, which the demo asks, into the user's cache.
fetch_smollm2() { # PYTHON
  PYTHONPATH=$root/engine_integration "$1" -P -m nearkv.real_models smollm2
}

# The sources that the card's firmware checks signatures with.
fetch_monocypher() { # PYTHON
  local folder=$venv/share/monocypher
  rm -rf "$folder" && mkdir -p "$folder"
  "$1" -m pip download --disable-pip-version-check --no-deps --no-binary pymonocypher \
    --dest "$folder" -r "$root/firmware/requirements.txt" &&
    tar -xzf "$folder"/*.tar.gz -C "$folder" --strip-components=1 --wildcards '*/monocypher.[ch]'
}

# The open headers of Vitis HLS, which a wheel carries; of the rest of it nothing is installed.
fetch_hls_headers() { # PYTHON
  local folder=$venv/share/hls
  rm -rf "$folder" && mkdir -p "$folder"
  "$1" -m pip download --disable-pip-version-check --no-deps --only-binary hls4ml \
    --dest "$folder" -r "$root/hls/requirements.txt" &&
    "$1" -m zipfile -e "$folder"/*.whl "$folder" &&
    mv "$folder"/hls4ml/templates/vivado/ap_types/* "$folder" &&
    rm -r "$folder"/hls4ml "$folder"/*.dist-info "$folder"/*.whl
}

find_python() {
  local python
  for python in /usr/bin/python3 python3; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    printf '%s\n' "$python" && return
  done
  die "NearKV needs Python 3.11 or newer, which Debian 12 and Ubuntu 24.04 have; here is \
$(python3 --version 2>/dev/null || echo none). Install one and let it come first on PATH as python3, on \
Debian by: sudo apt-get install python3 python3-venv"
}

# Ends after a step that failed, with what mends it.
die_step() { # LOG-NAME
  advise "$1"
  die "$advice"
}

advise() { # LOG-NAME: sets advice, by what the log tells
  local log=$logs/$1.log
  advice="all that was said is in $log; the next call goes on from here"
  if grep -qi 'no space left' "$log"; then
    advice="the disk is full: free some gigabytes ($(df -h --output=avail "$root" | tail -n 1 | xargs) \
are left), then call again"
  elif grep -qi 'could not get lock\|dpkg frontend lock' "$log"; then
    advice="another program is installing packages; call again when it has ended"
  elif grep -qiE 'resolv|unreachable|timed out|no matching distribution|failed to fetch' "$log"; then
    advice="the network, or a package index, is out of reach. What is installed already suffices \
without one; for the rest connect this machine, then call again. Details: $log"
  elif grep -qi 'permission denied' "$log"; then
    advice="a file may not be written; see $log for its name, mend its owner, then call again"
  fi
}

digest() { sha256sum <<<"$1" | cut -c -16; }
