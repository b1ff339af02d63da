#!/bin/sh
# XRT's shim runs this in the folder that it has unpacked an xclbin's simulator into, as a child of the
# application. The shim waits for ever for a simulator that has died; so the application is ended.
run_folder=$PWD
# When an application crashes its shim sends the whole group the signal that it got, and a terminal sends
# its own. The simulator ends when the application has; then there is something left to do here.
trap '' ABRT FPE SEGV HUP INT QUIT TERM

simulate() {
  status=0
  ./simulator description.json "$PPID" || status=$?
  if [ ! -e "$run_folder/keep" ]; then
    cd / || exit
    case ${EMULATION_RUN_DIR:-} in
      */.run/*/hw_em/device*)
        cards=${EMULATION_RUN_DIR%/*}
        rm -rf "$EMULATION_RUN_DIR"
        # Those of the cards that it has not used are there too, and empty.
        rmdir "$cards"/device* "$cards" "${cards%/*}" "${cards%/*/*}" 2>&1
        ;;
    esac >/dev/null
  fi
  if [ "$status" != 0 ]; then
    echo "nearkv xrt-emu: the simulator has ended (status $status), and with it this application" >&2
    kill -TERM "$PPID"
  fi
  exit "$status"
}

simulate
