# Sourced by scripts that install clients of other languages for the tests, from the files of a folder ($sources) into folders under
# another ($installed). Each is fetched again only when what it is made from has changed. One that cannot be had on this machine is
# left out: the reason is printed, and kept for the test, which repeats it and passes.
# shellcheck shell=bash disable=SC2154

# install CLIENT VERSION FILE…: VERSION is a command that shows the version of the tool that installs it, FILEs are what it reads.
# A function named like the client installs it into the folder where it is called.
install() {
    local client=$1 version=$2 folder=$installed/$1 log=$installed/$1.log made_from
    shift 2
    mkdir -p "$folder"
    # Unquoted on purpose: a command and its argument.
    # shellcheck disable=SC2086
    if ! made_from=$($version 2>&1 && cd "$sources/$client" && sha256sum "$@"); then
        leave_out "$client" "${version%% *} does not run here"
    elif [[ $(cat "$folder/ready" 2>/dev/null) != "$made_from" ]]; then
        echo "setup: installing $client for the tests"
        rm -rf "$folder"
        mkdir "$folder"
        if (cd "$folder" && "$client") >"$log" 2>&1; then
            echo "$made_from" >"$folder/ready"
        else
            leave_out "$client" "it cannot be installed: $(tail -n 1 "$log")"
        fi
    fi
}

leave_out() {
    rm -f "$installed/$1/ready"
    echo "$2" >"$installed/$1/missing"
    echo "setup: the tests leave out $1: $2" >&2
}
