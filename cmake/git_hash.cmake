# Writes "hash" or "hash-dirty" or "unknown" to OUTPUT, and touches the file only when it changes.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(hash unknown)
else()
  # Results are data, not code: a new result does not make the build dirty.
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no -- . ":(exclude)results"
    OUTPUT_VARIABLE changes ERROR_QUIET)
  if(NOT "${changes}" STREQUAL "")
    string(APPEND hash "-dirty")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "\"${hash}\"\n")
