# The corpus `self`: text files of this repository, one after the other.
#   include(): gradmill_pack_self(<output>) adds the rule that packs again when one of the files changes.
#   cmake -DROOT= -DFILES= -DOUTPUT= -P: packs the files (paths in ROOT, one a line in FILES).
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(GRADMILL_PACK_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

  function(gradmill_pack_self output)
    # Named folders, so that builds, runs and environments inside a checkout stay out.
    set(patterns *.md CMakeLists.txt Makefile)
    foreach(folder bench cli cmake docs src tests tools)
      foreach(pattern *.h *.cpp *.cuh *.cu *.md *.cmake *.py CMakeLists.txt Makefile)
        list(APPEND nested ${PROJECT_SOURCE_DIR}/${folder}/${pattern})
      endforeach()
    endforeach()
    list(TRANSFORM patterns PREPEND ${PROJECT_SOURCE_DIR}/)
    file(GLOB top RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${patterns})
    file(GLOB_RECURSE files RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${nested})
    list(APPEND files ${top})
    list(FILTER files EXCLUDE REGEX "(^|/)(goldens?|build[^/]*|\\.[^/]*)/")
    list(SORT files)

    list(JOIN files "\n" lines)
    file(CONFIGURE OUTPUT ${output}.files CONTENT "${lines}\n" @ONLY)
    list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DFILES=${output}.files -DOUTPUT=${output}
        -P ${GRADMILL_PACK_SCRIPT}
      DEPENDS ${sources} ${output}.files ${GRADMILL_PACK_SCRIPT}
      COMMENT "Packing the corpus 'self'" VERBATIM)
  endfunction()
  return()
endif()

file(STRINGS ${FILES} files)
file(WRITE ${OUTPUT}.part "")
foreach(file ${files})
  file(READ ${ROOT}/${file} text)
  file(APPEND ${OUTPUT}.part "==> ${file} <==\n${text}\n")
endforeach()
file(RENAME ${OUTPUT}.part ${OUTPUT})
